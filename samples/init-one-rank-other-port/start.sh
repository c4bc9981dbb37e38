#!/bin/sh
# Starts the ranks by hand: start.sh PYTHON PORT. The last line was copied from another script.
set -u
train="$(dirname "$0")/train.py"
export MASTER_ADDR=127.0.0.1 WORLD_SIZE=3
RANK=0 LOCAL_RANK=0 MASTER_PORT="$2" "$1" "$train" &
RANK=1 LOCAL_RANK=1 MASTER_PORT="$2" "$1" "$train" &
RANK=2 LOCAL_RANK=2 MASTER_PORT=9 "$1" "$train" &
wait
