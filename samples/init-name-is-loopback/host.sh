#!/bin/sh
# Starts the rank of one host: host.sh PYTHON. Debian writes 127.0.1.1 for the host's own name.
set -u
hosts=$(mktemp)
printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(hostname)" >"$hosts"
mount --bind "$hosts" /etc/hosts
MASTER_ADDR=$(hostname -i) # on the head; the others were given what it printed there
export MASTER_ADDR MASTER_PORT=29500 WORLD_SIZE=3 RANK="$HOST_NUMBER" LOCAL_RANK=0
exec "$1" "$(dirname "$0")/train.py"
