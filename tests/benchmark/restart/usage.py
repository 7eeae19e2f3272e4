# SPDX-License-Identifier: Apache-2.0
"""What processes use: processor seconds, bytes of files, and what other programs take beside
them."""

import os
import pathlib
import threading
import time


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class PeakBytes:
    """The most that files below some folders took at once, looked at every 20 ms."""

    def __init__(self, folders):
        self.most = 0
        self._folders, self._over = folders, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._over.wait(0.02):
            self.most = max(self.most, sum(map(_allocated, self._folders)))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


def _allocated(folder):
    total = 0
    for path, _, files in os.walk(folder):
        for file in files:
            try:
                total += 512 * os.stat(os.path.join(path, file)).st_blocks
            except FileNotFoundError:
                pass
    return total


class OtherPrograms:
    """Cores that programs other than this one and its children used."""

    def __init__(self):
        self._begin, self._busy, self._own = time.monotonic(), _busy_seconds(), sum(os.times()[:4])

    def cores(self, children):
        """children: processor seconds of those that still run."""
        own = sum(os.times()[:4]) + children - self._own
        return max(_busy_seconds() - self._busy - own, 0) / (time.monotonic() - self._begin)


def _busy_seconds():
    user, nice, system = (int(word) for word in pathlib.Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")
