"""Plays NCCL's RAS on loopback, in every mood: ``ras_server.py MODE PORT REPORT-FILE``."""

from __future__ import annotations

import socket
import sys
import threading
import time
from pathlib import Path

MODE, PORT, REPORT = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]).read_bytes()


def serve(connection: socket.socket) -> None:
    """Answer one client."""
    lines = connection.makefile("rb")
    if MODE == "silent":
        time.sleep(600)
    if MODE == "garbage":
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.close()
        return
    for raw in lines:
        line = raw.strip().upper().decode()
        if line.startswith("CLIENT PROTOCOL"):
            connection.sendall(b"SERVER PROTOCOL 2\n")
        elif line.startswith("TIMEOUT"):
            connection.sendall(b"OK\n")
        elif line == "SET FORMAT JSON":
            if MODE == "rude":
                break
            known = MODE != "old"
            connection.sendall(b"OK\n" if known else b"ERROR: Unknown command SET FORMAT json\n")
        elif line == "VERBOSE STATUS":
            report()(connection)
            break
        else:
            connection.sendall(b"ERROR: Unknown command\n")
    lines.close()
    connection.close()


def report():
    """Choose how the report is sent."""
    return {"cut": cut, "drip": drip, "huge": huge}.get(MODE, whole)


def whole(connection: socket.socket) -> None:
    """Send it in several writes, as RAS does."""
    for at in range(0, len(REPORT), 700):
        connection.sendall(REPORT[at : at + 700])


def cut(connection: socket.socket) -> None:
    """Stop half way."""
    connection.sendall(REPORT[: len(REPORT) * 9 // 10])


def drip(connection: socket.socket) -> None:
    """Begin, and never come to an end."""
    connection.sendall(REPORT[: len(REPORT) * 9 // 10])
    time.sleep(600)


def huge(connection: socket.socket) -> None:
    """Send far more than a report of any job."""
    connection.sendall(REPORT)
    for _ in range(100):
        connection.sendall(b" " * (1 << 20))


server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind(("127.0.0.1", PORT))
server.listen(64)
print("ready", flush=True)
if MODE == "frozen":
    time.sleep(600)
while True:
    client, _ = server.accept()
    threading.Thread(target=serve, args=(client,), daemon=True).start()
