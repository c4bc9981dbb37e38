#!/bin/sh
# Starts the rank of one host: host.sh PYTHON. The address is that of the master of last month.
set -u
export MASTER_ADDR=10.77.0.99 MASTER_PORT=29500 WORLD_SIZE=3 RANK="$HOST_NUMBER" LOCAL_RANK=0
exec "$1" "$(dirname "$0")/train.py"
