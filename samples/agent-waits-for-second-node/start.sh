#!/bin/sh
# Starts torchrun as the batch script of the first node does: start.sh PYTHON PORT
export LOGLEVEL=INFO
exec "$1" -m torch.distributed.run --nnodes 2:4 --nproc-per-node 2 --rdzv-backend c10d \
    --rdzv-endpoint "127.0.0.1:$2" --rdzv-id nightly "$(dirname "$0")/train.py"
