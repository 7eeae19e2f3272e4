#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What strangers at the data ports cost moves: bytes that are no handshake, and connections that
say nothing. Run by hand; prints a table.

    PYTHONPATH=build/release/python tests/benchmark/stray_bytes.py [--bin-dir build/release/bin]
    [--strings 1000000] [--idle 1100]

Two hosts move 16 MB to and fro, first alone, then while `idle` connections stay at one host's data
port and `strings` byte strings, a connection each, arrive at the other's: random ones, and first
words of the handshake (worker/transport/tcp_handshake.h) with bytes changed, cut or added. Exits 1
when a move fails, or a worker logs more than a line a second.
"""

import argparse
import dataclasses
import pathlib
import random
import re
import resource
import socket
import statistics
import sys
import threading
import time

import suite_wire

from remesh.testing import LocalCluster
from remesh.trainer import Trainer

SENDERS = 4
HELLO_BYTES = 88
MAGIC = b"remeshd1"
ROWS = 4096
PATIENCE_SECONDS = 10


@dataclasses.dataclass
class Told:
    """What strangers have said so far."""

    left: int
    said: int = 0
    refused: int = 0  # no connection, or it ended before all was said
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def take(self) -> bool:
        with self.lock:
            self.left -= 1
            return self.left >= 0

    def note(self, said: bool) -> None:
        with self.lock:
            self.said += said
            self.refused += not said


def stray(words: random.Random) -> bytes:
    """Random bytes, or a hello that is spoiled."""
    if words.random() < 0.5:
        return words.randbytes(words.randrange(1, 300))
    hello = bytearray(MAGIC + words.randbytes(HELLO_BYTES - len(MAGIC)))
    for _ in range(words.randrange(3)):
        hello[words.randrange(len(hello))] = words.randrange(256)
    return bytes(hello[: words.randrange(1, len(hello) + 1)]) + words.randbytes(
        words.randrange(3) * 40
    )


def say(port: int, source: str, words: bytes) -> bool:
    """Whether the worker listened: it sent its challenge, and ended the connection when it had
    heard the words."""
    with socket.socket() as stranger:
        stranger.settimeout(PATIENCE_SECONDS)
        challenged = False
        try:
            stranger.bind((source, 0))
            stranger.connect(("127.0.0.1", port))
            stranger.sendall(words)
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(4096):
                challenged = True
        except ConnectionResetError:  # it ended with words unread
            pass
        except OSError:
            return False
        return challenged


def babble(port: int, number: int, told: Told) -> None:
    words = random.Random(number)
    for turn in range(sys.maxsize):
        if not told.take():
            return
        told.note(
            say(port, f"127.0.{1 + number}.{1 + turn % 250}", stray(words))
        )  # ports stay taken for a minute


def stay(port: int, count: int) -> list:
    """Connections that say nothing; those that the worker ends are not opened again."""
    found = []
    for i in range(count):
        stranger = socket.socket()
        stranger.settimeout(PATIENCE_SECONDS)
        stranger.bind((f"127.0.0.{100 + i % 100}", 0))
        stranger.connect(("127.0.0.1", port))
        found.append(stranger)
    return found


class Mover:
    """Moves a state between rows and columns, again and again."""

    def __init__(self, cluster):
        self._case = suite_wire.Case(
            "",
            2,
            1,
            1,
            [ROWS, ROWS],
            "u8",
            ("{devices=[2,1]<=[2]}", "{devices=[1,2]<=[2]}"),
            (range(2), range(2)),
        )
        self._trainers = [
            Trainer(cluster.server_address, cluster.worker_socket(host))
            for host in cluster.host_names
        ]
        suite_wire._create(self._trainers, cluster, self._case)
        self._generation = 0

    def move(self) -> float:
        self._generation += 1
        return suite_wire._move(self._trainers[0], self._generation, self._case)["seconds"]


def lines(cluster) -> int:
    return sum(worker.log.read_bytes().count(b"\n") for worker in cluster.workers.values())


def told_of(name, moves, log_lines, seconds) -> str:
    return (
        f"{name:28} {len(moves)} moves in {seconds:.0f} s, median "
        f"{1e3 * statistics.median(moves):.0f} ms, longest {1e3 * max(moves):.0f} ms; "
        f"{log_lines / seconds / 2:.2f} log lines a second and worker"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin-dir", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--strings", type=int, default=1_000_000)
    parser.add_argument("--idle", type=int, default=1100)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with LocalCluster(options.bin_dir, hosts=2, buffer_bytes=8 * ROWS * ROWS) as cluster:
        ports = [
            int(
                re.search(r"data_address=127.0.0.1:(\d+)", cluster.workers[host].log.read_text())[1]
            )
            for host in cluster.host_names
        ]
        mover = Mover(cluster)
        for _ in range(3):
            mover.move()
        before, begun = lines(cluster), time.monotonic()
        alone = [mover.move() for _ in range(30)]
        print(
            told_of("alone", alone, lines(cluster) - before, time.monotonic() - begun), flush=True
        )
        quiet = (lines(cluster) - before) / len(alone)

        idle, told = stay(ports[0], options.idle), Told(options.strings)
        before, begun, beside = lines(cluster), time.monotonic(), []
        senders = [
            threading.Thread(target=babble, args=(ports[1], n, told), daemon=True)
            for n in range(SENDERS)
        ]
        for sender in senders:
            sender.start()
        while any(sender.is_alive() for sender in senders):
            beside.append(mover.move())
        seconds = time.monotonic() - begun
        strange = (
            lines(cluster) - before - quiet * len(beside)
        )  # what moves log by themselves does not count
        print(told_of("beside strangers", beside, strange, seconds))
        print(
            f"{told.said} strings heard, {told.refused} not, {told.said / seconds:.0f} a second; "
            f"{len(idle)} idle connections"
        )
        del idle
    sys.exit(strange / 2 > seconds)


if __name__ == "__main__":
    main()
