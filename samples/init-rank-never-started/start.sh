#!/bin/sh
# Starts the ranks of this node: start.sh PYTHON PORT
set -u
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$2" WORLD_SIZE=4
for rank in 0 1 2; do # the machine has lost one of its four devices, the job still counts four
    RANK=$rank LOCAL_RANK=$rank "$1" "$(dirname "$0")/train.py" &
done
wait
