"""NCCL's health network (RAS): asked live over TCP, and its reports read from files."""
