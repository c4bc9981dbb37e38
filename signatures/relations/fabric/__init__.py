"""NCCL, network fabric and GPUs: what their messages say about a hang."""
