"""When TCP connections last carried data, as the kernel tells by netlink (sock_diag(7)).

``ss -ti`` of iproute2 shows the same as ``lastsnd`` and ``lastrcv``; containers often lack it. The
kernel tells of the network that whyhang itself is in, to any user.
"""

import socket
import struct
from collections.abc import Iterator
from typing import TypeAlias

LIMIT = 2.0
"""Seconds to wait for a part of the answer."""

_SOCK_DIAG, _BY_FAMILY = 4, 20  # NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY
_ERROR, _DONE = 2, 3  # NLMSG_ERROR, NLMSG_DONE
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ESTABLISHED = 1 << 1
_TCP_INFO = 2  # INET_DIAG_INFO
_HEADER = struct.Struct("=IHHII")  # nlmsghdr
_ASKED = struct.Struct("=BBBxI48x")  # inet_diag_req_v2: family, protocol, extensions, states
_ANSWER = struct.Struct("=4x48x16xI")  # inet_diag_msg, up to its inode
_ATTRIBUTE = struct.Struct("=HH")  # rtattr: length, kind
_SENT, _RECEIVED = 44, 52
"""Where tcpi_last_data_sent and tcpi_last_data_recv stand in a tcp_info, in milliseconds."""


LastData: TypeAlias = tuple[float, float]
"""Seconds since a connection last sent and received data."""


def last_data() -> dict[str, LastData]:
    """Return when each TCP connection last carried data, by the inode of its socket.

    Raises OSError where the kernel does not tell.
    """
    times: dict[str, LastData] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as asked:
            asked.settimeout(LIMIT)
            body = _ASKED.pack(family, socket.IPPROTO_TCP, 1 << (_TCP_INFO - 1), _ESTABLISHED)
            asked.send(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _DUMP, 1, 0) + body)
            times.update(_connections(asked))
    return times


def _connections(asked: socket.socket) -> Iterator[tuple[str, LastData]]:
    while True:
        data = asked.recv(1 << 16)
        while len(data) >= _HEADER.size:
            length, kind, *_ = _HEADER.unpack_from(data)
            message, data = data[_HEADER.size : length], data[_aligned(length) :]
            if kind == _ERROR:
                raise OSError(-int.from_bytes(message[:4], "little", signed=True), "sock_diag")
            if kind == _DONE:
                return
            (inode,) = _ANSWER.unpack_from(message)
            if (info := _attribute(message[_ANSWER.size :])) is not None:
                yield str(inode), info


def _attribute(data: bytes) -> LastData | None:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if kind == _TCP_INFO and length >= _ATTRIBUTE.size + _RECEIVED + 4:
            info = data[_ATTRIBUTE.size : length]
            sent, received = (
                int.from_bytes(info[at : at + 4], "little") for at in (_SENT, _RECEIVED)
            )
            return sent / 1000, received / 1000
        data = data[max(_aligned(length), _ATTRIBUTE.size) :]
    return None


def _aligned(length: int) -> int:
    return (length + 3) & ~3
