#!/bin/sh
# Starts the ranks by hand: start.sh PYTHON PORT. Somebody shows the results on the same port.
set -u
cd "$(dirname "$0")" || exit 1
"$1" -m http.server "$2" &
sleep 1
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$2" WORLD_SIZE=3
for rank in 0 1 2; do
    RANK=$rank LOCAL_RANK=$rank "$1" "$PWD/train.py" &
done
wait
