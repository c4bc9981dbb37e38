#!/bin/sh
# Starts the ranks of three nodes by hand: start.sh PYTHON PORT
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$2"
for rank in 0 1 2; do
    size=3
    [ "$rank" = 2 ] && size=4 # this node still has the settings of the larger run
    RANK=$rank LOCAL_RANK=0 WORLD_SIZE=$size "$1" "$(dirname "$0")/train.py" &
done
wait
