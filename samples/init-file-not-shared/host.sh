#!/bin/sh
# Starts the rank of one host: host.sh PYTHON. On node2 the shared disk was not mounted.
set -u
shared="$TMPDIR/shared"
mkdir -p "$shared"
if [ "$HOST_NUMBER" = 2 ]; then
    mount -t tmpfs local "$shared"
fi
export WORLD_SIZE=3 RANK="$HOST_NUMBER" LOCAL_RANK=0
exec "$1" "$(dirname "$0")/train.py" "file://$shared/meet"
