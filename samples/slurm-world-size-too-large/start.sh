#!/bin/sh
# The batch script: start.sh PYTHON PORT
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$2" WORLD_SIZE=4 # of the last run, which had one node more
exec srun --nodes 3 --ntasks 3 "$1" "$(dirname "$0")/train.py"
