#!/bin/sh
# Starts the ranks by hand: start.sh PYTHON PORT. The last run was ended, all but one process.
set -u
train="$(dirname "$0")/train.py"
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$2" WORLD_SIZE=2
RANK=0 LOCAL_RANK=0 setsid "$1" "$train" >>last.log 2>&1 &
RANK=1 LOCAL_RANK=1 "$1" "$train" >>last.log 2>&1 &
last=$!
until [ "$(grep -c 'has joined' last.log)" = 2 ]; do sleep 0.2; done
sleep 2
kill -9 "$last"
cat last.log
for rank in 0 1; do
    RANK=$rank LOCAL_RANK=$rank "$1" "$train" &
done
wait
