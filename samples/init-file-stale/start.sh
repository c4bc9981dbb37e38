#!/bin/sh
# Starts the ranks by hand: start.sh PYTHON. The last run was ended, all but one process.
#
# Of two ranks, gloo lets the one of the higher port call the other. The new rank 0 must have
# called what is left of the last run: where it waits for a call, the new rank 1 makes it, and the
# job runs after all. Ports are given at random, so both runs are started until it has.
set -u
train="$(dirname "$0")/train.py"
url="file://$TMPDIR/meet"
export WORLD_SIZE=2

# joined LOG RANKS SECONDS: wait until so many ranks have joined, by what they logged
joined() {
    tries=$(($3 * 5))
    until [ "$(grep -c 'has joined' "$1")" = "$2" ]; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.2
    done
}

while :; do
    : >last.log
    RANK=0 LOCAL_RANK=0 HOLD=yes "$1" "$train" "$url" >>last.log 2>&1 &
    ended=$!
    (RANK=1 LOCAL_RANK=1 HOLD=yes setsid "$1" "$train" "$url" >>last.log 2>&1 & echo $! >left)
    joined last.log 2 60 || exit
    kill -9 "$ended"
    : >rank0.log
    RANK=0 LOCAL_RANK=0 "$1" "$train" "$url" >>rank0.log 2>&1 &
    first=$!
    until grep -q 'joining' rank0.log; do sleep 0.2; done
    joined rank0.log 1 3 && break
    kill -9 "$first" "$(cat left)"
    rm -f "$TMPDIR/meet"
done
cat rank0.log
RANK=1 LOCAL_RANK=1 "$1" "$train" "$url" & # its node is slower
wait
