#!/bin/sh
# Starts torchrun for three nodes as an operator does over ssh: start.sh PYTHON PORT
export LOGLEVEL=INFO
number=0
for node in 0 1 2; do
    [ "$node" = 2 ] && number=1 # the id is made on each node, and this one was started a second later
    "$1" -m torch.distributed.run --nnodes 3 --nproc-per-node 1 --rdzv-backend c10d \
        --rdzv-endpoint "127.0.0.1:$2" --rdzv-id "run-$number" "$(dirname "$0")/train.py" &
done
wait
