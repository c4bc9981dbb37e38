#!/bin/sh
# Starts the ranks of two nodes by hand: start.sh PYTHON PORT
set -u
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$2" WORLD_SIZE=4
for rank in 0 1 1 3; do # copied from the line above it and never corrected
    RANK=$rank LOCAL_RANK=$rank "$1" "$(dirname "$0")/train.py" &
done
wait
