"""What NCCL itself says: warnings in unknown words, ids of old communicators."""
