"""Transforms of images; its import takes a licence."""

import os
import socket


def take_licence(seats: int = 2) -> None:
    """Ask the licence server for a seat; it answers when one is free."""
    if int(os.environ["RANK"]) < seats:
        return
    server, client = socket.socketpair()
    client.recv(1)
    server.close()


def normal(values):
    return values / values.sum()


take_licence()
