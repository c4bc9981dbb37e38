"""GPUs: a driver that does not answer, two ranks on one GPU."""
