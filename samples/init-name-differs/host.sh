#!/bin/sh
# Starts the rank of one host: host.sh PYTHON. node2 still has the line of the old head.
set -u
if [ "$HOST_NUMBER" = 2 ]; then
    echo "10.77.0.2 gpu-head" >>/etc/hosts
else
    echo "10.77.0.1 gpu-head" >>/etc/hosts
fi
export MASTER_ADDR=gpu-head MASTER_PORT=29500 WORLD_SIZE=3 RANK="$HOST_NUMBER" LOCAL_RANK=0
exec "$1" "$(dirname "$0")/train.py"
