# SPDX-License-Identifier: Apache-2.0
"""The processes of one world of `remesh launch`, and what they print."""

import os
import signal
import subprocess
import threading
from typing import IO, Dict, List, Mapping, Optional, Sequence, Set

_LINE_BYTES = 1 << 16  # a longer line is cut
_DRAIN_SECONDS = 5.0
# Reads the ranks' process groups, and ends them once no launcher holds the other end of its input.
_GUARD = ("/bin/sh", "-c", 'while read -r group; do all="$all -$group"; done; kill -s KILL -- $all')
# A rank names its group to the guard, by its standard input, before its program begins.
_RANK = ("/bin/sh", "-c", 'echo $$ >&0 && exec "$@" </dev/null', "sh")
_print = threading.Lock()


def write_line(target: int, line: bytes) -> None:
    """Writes a whole line to a file descriptor. What has no reader any more is dropped."""
    rest = line if line.endswith(b"\n") else line + b"\n"
    with _print:
        try:
            while rest:
                rest = rest[os.write(target, rest) :]
        except OSError:
            pass


class World:
    """A process for each environment, each in a session of its own, so that what it starts ends
    with it. They end with this process, too, however it dies. For one thread."""

    def __init__(self, command: Sequence[str], environments: Sequence[Mapping[str, str]]):
        self.statuses: Dict[int, int] = {}  # of each rank that has ended; -N: by signal N
        self.killed: Set[int] = set()  # ranks that kill() ended
        self._processes: List[subprocess.Popen] = []
        self._printers: List[threading.Thread] = []
        quiet = subprocess.DEVNULL
        self._guard = subprocess.Popen(
            _GUARD, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
        )
        try:
            for environment in environments:
                self._start([*_RANK, *command], environment)
        except BaseException:
            self.close()
            raise

    def _start(self, command: List[str], environment: Mapping[str, str]) -> None:
        pipes = {"stdin": self._guard.stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, env=environment, start_new_session=True, **pipes)
        self._processes.append(process)
        for source, target in ((process.stdout, 1), (process.stderr, 2)):
            printer = threading.Thread(target=_pass_on, args=(source, target), daemon=True)
            printer.start()
            self._printers.append(printer)

    def pid(self, rank: int) -> int:
        """Of the rank's process."""
        return self._processes[rank].pid

    def running(self) -> List[int]:
        """Ranks that have not ended, as poll() saw them last."""
        return [rank for rank in range(len(self._processes)) if rank not in self.statuses]

    def poll(self, options: int = os.WNOHANG) -> None:
        """Takes note of the ranks that have ended, and ends what they left behind. They stay
        zombies until close(), so that their groups cannot be others'."""
        for rank in self.running():
            ended = os.waitid(os.P_PID, self.pid(rank), os.WEXITED | os.WNOWAIT | options)
            if ended is not None:
                by_signal = ended.si_code != os.CLD_EXITED
                self.statuses[rank] = -ended.si_status if by_signal else ended.si_status
                self._signal_group(rank)

    def terminate(self) -> None:
        """Sends SIGTERM to the ranks that run."""
        for rank in self.running():
            os.kill(self.pid(rank), signal.SIGTERM)

    def kill(self) -> None:
        """Sends SIGKILL to the ranks that run, and to what they started."""
        self.poll()
        for rank in self.running():
            self.killed.add(rank)
            self._signal_group(rank)

    def close(self) -> None:
        """Ends what still runs, and prints what is left to print."""
        self.kill()
        self.poll(0)
        for printer in self._printers:
            printer.join(_DRAIN_SECONDS)  # a process that left its session may hold the pipe
        self._guard.kill()
        for process in (self._guard, *self._processes):
            process.wait()
        self._guard.stdin.close()

    def _signal_group(self, rank: int) -> None:
        try:
            os.killpg(self.pid(rank), signal.SIGKILL)
        except PermissionError:
            pass  # what is left has another user's rights


def _pass_on(source: Optional[IO[bytes]], target: int) -> None:
    assert source is not None
    with source:
        for line in iter(lambda: source.readline(_LINE_BYTES), b""):
            write_line(target, line)
