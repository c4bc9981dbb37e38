#!/bin/sh
# Starts the ranks by hand: start.sh PYTHON PORT. Somebody wanted to see more of rank 2.
set -u
train="$(dirname "$0")/train.py"
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$2" WORLD_SIZE=3
RANK=0 LOCAL_RANK=0 "$1" "$train" &
RANK=1 LOCAL_RANK=1 "$1" "$train" &
RANK=2 LOCAL_RANK=2 TORCH_DISTRIBUTED_DEBUG=DETAIL "$1" "$train" &
wait
