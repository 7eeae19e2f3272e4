# SPDX-License-Identifier: Apache-2.0
"""A group of real processes over loopback, for tests: process 0 passes on what the others send. The
end of a process is MemberLost."""

import pickle
import socket
import struct
import time
from typing import List, Optional

from remesh import errors

_SECONDS = 60.0


class SocketGroup:
    """Process 0 takes over a socket that listens already; the others connect to its port."""

    def __init__(self, rank: int, size: int, listener: Optional[socket.socket], port: int):
        self.rank, self.size = rank, size
        if rank:
            self._others = [_connect(port)]
            _send(self._others[0], rank)
            return
        accepted = [listener.accept()[0] for _ in range(size - 1)]
        by_rank = {_receive(each): each for each in accepted}
        self._others = [by_rank[each] for each in range(1, size)]

    def barrier(self, name: str) -> None:
        """Group.barrier()."""
        self.broadcast(name, b"" if self.gather(name, b"") is not None else b"")

    def agree(self, name: str, value: bytes) -> None:
        """Group.agree()."""
        raise NotImplementedError

    def gather(self, name: str, payload: bytes, to: int = 0) -> Optional[List[bytes]]:
        """Group.gather(), to process 0."""
        if self.rank:
            _send(self._others[0], (name, payload))
            return None
        received = [_receive(each) for each in self._others]
        assert all(each[0] == name for each in received), (name, [each[0] for each in received])
        return [payload, *(each[1] for each in received)]

    def broadcast(self, name: str, payload: bytes, root: int = 0) -> bytes:
        """Group.broadcast(), from process 0."""
        if self.rank:
            return _receive(self._others[0])[1]
        for each in self._others:
            _send(each, (name, payload))
        return payload


def _connect(port: int) -> socket.socket:
    give_up = time.monotonic() + _SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), _SECONDS)
        except OSError:
            if time.monotonic() > give_up:
                raise


def _send(to: socket.socket, value) -> None:
    data = pickle.dumps(value)
    try:
        to.sendall(struct.pack("<I", len(data)) + data)
    except OSError as error:
        raise errors.MemberLost(f"a process has left: {error}") from None


def _receive(source: socket.socket):
    (length,) = struct.unpack("<I", _exactly(source, 4))
    return pickle.loads(_exactly(source, length))


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        try:
            part = source.recv(count - len(data))
        except OSError as error:
            raise errors.MemberLost(f"a process has left: {error}") from None
        if not part:
            raise errors.MemberLost("a process has left")
        data += part
    return data
