#!/bin/sh
# Starts the rank of one host: host.sh PYTHON. Every host runs docker, with its usual network.
set -u
ip link add docker0 type bridge
ip address add 172.17.0.1/16 dev docker0
ip link set docker0 up
export MASTER_ADDR=172.17.0.1 MASTER_PORT=29500 WORLD_SIZE=3 RANK="$HOST_NUMBER" LOCAL_RANK=0
exec "$1" "$(dirname "$0")/train.py"
