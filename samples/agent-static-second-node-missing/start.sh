#!/bin/sh
# Starts torchrun on the first of two nodes: start.sh PYTHON PORT
export LOGLEVEL=INFO
exec "$1" -m torch.distributed.run --nnodes 2 --node-rank 0 --nproc-per-node 2 \
    --master-addr 127.0.0.1 --master-port "$2" "$(dirname "$0")/train.py"
