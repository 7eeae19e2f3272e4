#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What HTTP/2 frames that are no calls cost the server and its other callers. Run by hand; prints a
table.

    PYTHONPATH=build/release/python tests/benchmark/frame_flood.py [--bin-dir build/release/bin]
    [--connections 4] [--seconds 20]

For each kind of frame, connections from 127.0.0.2 send it without a pause, and connect again when
they are ended. All the while a caller from 127.0.0.1 asks for the list of workers, one call after
the other: its answers a second, the longest wait, and the server's memory.
"""

import argparse
import multiprocessing
import pathlib
import socket
import time

import grpc

from remesh.testing import CHANNEL_OPTIONS, LocalCluster
from remesh.v1 import worker_pb2, worker_pb2_grpc

PREFACE = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04\x00" + bytes(4)
)  # and empty SETTINGS


def frame(kind: int, payload: bytes, flags: int = 0, stream: int = 0) -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


# What opens the flood, and what it repeats.
FLOODS = {
    "nothing": None,
    "PING": (b"", frame(6, bytes(8))),
    "PING with ACK": (b"", frame(6, bytes(8), flags=1)),
    "SETTINGS": (b"", frame(4, b"")),
    "WINDOW_UPDATE": (b"", frame(8, b"\0\0\0\1")),
    "PRIORITY": (b"", frame(2, b"\0\0\0\0\1", stream=3)),
    "unknown type": (b"", frame(200, b"")),
    # A literal header without a name in the table, repeated in the headers of one call that never
    # end.
    "CONTINUATION": (
        frame(1, b"\x00\x01a\x01b", stream=1),
        frame(9, b"\x00\x01a\x7f\x80\x3f" + bytes(8191 - 64), stream=1),
    ),
}


def flood(port: int, opening: bytes, repeated: bytes) -> None:
    """Without end."""
    block = repeated * max(1, 65536 // len(repeated))
    while True:
        try:
            with socket.socket() as connection:
                connection.bind(("127.0.0.2", 0))
                connection.connect(("127.0.0.1", port))
                connection.sendall(PREFACE + opening)
                while True:
                    connection.sendall(block)
        except OSError:
            time.sleep(0.05)


def peak_mib(pid: int) -> int:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return (
        next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        // 1024
    )


def measure(bin_dir: pathlib.Path, kind: str, connections: int, seconds: float) -> str:
    with LocalCluster(bin_dir, hosts=0) as cluster, cluster.channel() as channel:
        stub = worker_pb2_grpc.WorkerServiceStub(channel)
        stub.ListWorkers(worker_pb2.ListWorkersRequest(), timeout=10)
        port = int(cluster.server_address.rsplit(":", 1)[1])
        strangers = (
            [
                multiprocessing.Process(target=flood, args=(port, *FLOODS[kind]), daemon=True)
                for _ in range(connections)
            ]
            if FLOODS[kind]
            else []
        )
        for stranger in strangers:
            stranger.start()
        waits, start = [], time.monotonic()
        while time.monotonic() < start + seconds:
            asked = time.monotonic()
            try:
                stub.ListWorkers(worker_pb2.ListWorkersRequest(), timeout=60)
            except grpc.RpcError as error:
                print(f"{kind}: {error.code()}")
            waits.append(time.monotonic() - asked)
        took = time.monotonic() - start
        for stranger in strangers:
            stranger.kill()
            stranger.join()
        ended = cluster.server.log.read_text(errors="replace").count("it sends too much")
        return (
            f"{kind:14} {ended:3} connections ended, {len(waits) / took:7.0f} answers/s, longest "
            f"wait {max(waits):6.2f} s, peak {peak_mib(cluster.server.popen.pid):5} MiB"
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin-dir", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--kinds", default=",".join(FLOODS))
    options = parser.parse_args()
    multiprocessing.set_start_method("fork")
    for kind in options.kinds.split(","):
        print(measure(options.bin_dir, kind, options.connections, options.seconds), flush=True)


if __name__ == "__main__":
    main()
