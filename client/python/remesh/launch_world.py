# SPDX-License-Identifier: Apache-2.0
"""The processes of one world of `remesh launch`, and what they print."""

import contextlib
import functools
import os
import signal
import subprocess
import threading
from typing import IO, Dict, List, Mapping, Sequence

_LINE_BYTES = 1 << 16  # a longer line is cut
_DRAIN_SECONDS = 5.0  # of all ranks: a process that left its session may hold their output
# Reads the ranks' process groups, and ends them once no launcher holds the other end of its input.
_GUARD = ("/bin/sh", "-c", 'while read -r group; do all="$all -$group"; done; kill -s KILL -- $all')
# A rank names its group to the guard, by its standard input, before its program begins.
_RANK = ("/bin/sh", "-c", 'echo $$ >&0 && exec "$@" </dev/null', "sh")
_whole_line = threading.Lock()


class World:
    """`size` processes, each in a session of its own, so that what it starts ends with it. They end
    with this process, too, however it dies. For one thread."""

    def __init__(self, command: Sequence[str], size: int, environ: Mapping[str, str]):
        self.processes: List[subprocess.Popen] = []  # by rank
        self.statuses: Dict[int, int] = {}  # of ranks that ended by themselves; 128 + N: signal N
        self._printers: List[threading.Thread] = []
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        start = functools.partial(subprocess.Popen, start_new_session=True, **pipes)
        self._guard = start(_GUARD, stdin=subprocess.PIPE)
        for rank in range(size):
            ranks = dict.fromkeys(("REMESH_RANK", "RANK", "LOCAL_RANK"), str(rank))
            process = start([*_RANK, *command], env={**environ, **ranks}, stdin=self._guard.stdin)
            self.processes.append(process)
            for source, target in ((process.stdout, 1), (process.stderr, 2)):
                printer = threading.Thread(target=_pass_on, args=(source, target), daemon=True)
                printer.start()
                self._printers.append(printer)

    def running(self) -> List[int]:
        """Ranks that have not ended, as poll() saw them last."""
        return [rank for rank in range(len(self.processes)) if rank not in self.statuses]

    def poll(self) -> None:
        """Takes note of the ranks that have ended. They stay zombies until close(), so that their
        groups cannot be others'."""
        for rank in self.running():
            pid = self.processes[rank].pid
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if ended is not None:
                by_signal = ended.si_code != os.CLD_EXITED
                self.statuses[rank] = ended.si_status + (128 if by_signal else 0)

    def close(self) -> None:
        """Kills what still runs, with what the ranks have started, and prints what they said."""
        for process in self.processes:
            with contextlib.suppress(PermissionError):  # what is left has another user's rights
                os.killpg(process.pid, signal.SIGKILL)
        self._guard.communicate()
        for process in self.processes:
            process.wait()
        for printer in self._printers:
            printer.join(_DRAIN_SECONDS / len(self._printers))


def write_line(target: int, line: bytes) -> None:
    """Writes a whole line to a file descriptor. What has no reader any more is dropped."""
    rest = line if line.endswith(b"\n") else line + b"\n"
    with _whole_line, contextlib.suppress(OSError):
        while rest:
            rest = rest[os.write(target, rest) :]


def _pass_on(source: IO[bytes], target: int) -> None:
    with source:
        for line in iter(lambda: source.readline(_LINE_BYTES), b""):
            write_line(target, line)
