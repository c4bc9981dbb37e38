#!/bin/sh
# Starts the ranks of this node: start.sh PYTHON PORT
set -u
train="$(dirname "$0")/train.py"
meet="tcp://127.0.0.1:$2"
for rank in 0 1; do
    "$1" "$train" --rank "$rank" --world-size 3 --init-method "$meet" --accumulate 4 &
done
# the smaller card: more, smaller steps
"$1" "$train" --rank 2 --world-size 3 --init-method "$meet" --accumulate 3 &
wait
