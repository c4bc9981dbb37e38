#!/bin/sh
# Starts the rank of one host: host.sh PYTHON. The firewall of node0 knows nothing of node2.
set -u
if [ "$HOST_NUMBER" = 0 ]; then
    iptables -A INPUT -s 10.77.0.3 -j DROP
fi
export MASTER_ADDR=node0 MASTER_PORT=29500 WORLD_SIZE=3 RANK="$HOST_NUMBER" LOCAL_RANK=0
exec "$1" "$(dirname "$0")/train.py"
