#!/bin/sh
# Starts the ranks by hand: start.sh PYTHON. The last run was ended, all but one process.
set -u
train="$(dirname "$0")/train.py"
url="file://$TMPDIR/meet"
export WORLD_SIZE=2
RANK=0 LOCAL_RANK=0 HOLD=yes "$1" "$train" "$url" >>last.log 2>&1 &
last=$!
(RANK=1 LOCAL_RANK=1 HOLD=yes setsid "$1" "$train" "$url" >>last.log 2>&1 &)
until [ "$(grep -c 'has joined' last.log)" = 2 ]; do sleep 0.2; done
sleep 1
kill -9 "$last"
RANK=0 LOCAL_RANK=0 "$1" "$train" "$url" &
sleep 9
RANK=1 LOCAL_RANK=1 "$1" "$train" "$url" & # its node is slower
wait
