#!/bin/sh
# Starts torchrun for two nodes with a static rendezvous: start.sh PYTHON PORT
for node in 0 1; do
    "$1" -m torch.distributed.run --nnodes 2 --node-rank $node --nproc-per-node 2 --max-restarts 3 \
        --master-addr 127.0.0.1 --master-port "$2" "$(dirname "$0")/train.py" &
done
wait
