# SPDX-License-Identifier: Apache-2.0
"""Processes, and machines that are not there: namespaces with processes, mounts and a network of
their own.

The caller is itself process 1 of a space of process ids (scripts/test-cluster sees to that), so
that whatever it starts ends with it.
"""

import os
import pathlib
import signal
import subprocess
import time
from typing import Callable, List

STOP_SECONDS = 10.0


def run(
    *argv, check: bool = True, text: str = "", timeout: float = 120, env=None, cwd=None
) -> subprocess.CompletedProcess:
    """A command to its end. Raises RuntimeError with its words unless it succeeds."""
    done = subprocess.run(
        [str(part) for part in argv],
        input=text,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd=cwd,
        env={**os.environ, **(env or {})},
    )
    if check and done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(map(str, argv))[:300]}: exit code "
            f"{done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )
    return done


def wait_for(what: str, condition: Callable, seconds: float = 90, pause: float = 0.1):
    """Polls until `condition` gives something true, which it returns; what raises counts as false.
    Raises TimeoutError."""
    give_up, last = time.monotonic() + seconds, None
    while time.monotonic() < give_up:
        try:
            result = condition()
            if result:
                return result
        except (OSError, RuntimeError, ValueError, KeyError, IndexError) as error:
            last = error
        time.sleep(pause)
    raise TimeoutError(f"not within {seconds:g} s: {what}" + (f" ({last})" if last else ""))


class Process:
    """A command in the background, its words in a file."""

    def __init__(self, argv: List, log: pathlib.Path, env=None):
        with log.open("ab") as output:
            self.popen = subprocess.Popen(
                [str(part) for part in argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(env or {})},
            )

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.popen.poll() is None:
            self.popen.send_signal(how)
        try:
            self.popen.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()


# Mounts stay inside. tmpfs of its own where a node has them; shared below, for what a kubelet
# mounts must reach its containers.
_BEGIN = """
mount --make-rprivate /
mount -t tmpfs -o size=6g tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mkdir -p /run/lock /var/log/pods
for folder in /var/lib/kubelet /var/lib/cni; do  # paths that cannot be chosen
  mkdir -p $folder
  mount -t tmpfs tmpfs $folder
done
mount --make-rshared /
trap '' CHLD
exec sleep infinity
"""


class Machine:
    """Namespaces that hold a node. Process ids, mounts, network and shared memory are its own,
    cgroups and the file system are not."""

    def __init__(self, name: str, folder: pathlib.Path):
        self.name, self.folder = name, folder
        folder.mkdir(parents=True)
        self._space = Process(
            [
                "unshare",
                "--pid",
                "--mount",
                "--net",
                "--ipc",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
                "-ec",
                _BEGIN,
            ],
            folder / "space.log",
        )
        self.init = int(wait_for(f"{name}: its first process", self._children)[0])
        wait_for(
            f"{name}: its mounts",
            lambda: pathlib.Path(f"/proc/{self.init}/comm").read_text() == "sleep\n",
        )

    def _children(self) -> List[str]:
        pid = self._space.popen.pid
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

    def inside(self, *argv) -> List[str]:
        """The command that runs `argv` there."""
        return [
            "nsenter",
            f"--target={self.init}",
            "--pid",
            "--mount",
            "--net",
            "--ipc",
            "--",
            *map(str, argv),
        ]

    def run(self, *argv, **options) -> subprocess.CompletedProcess:
        return run(*self.inside(*argv), **options)

    def start(self, name: str, *argv) -> Process:
        return Process(self.inside(*argv), self.folder / f"{name}.log")

    def end(self) -> None:
        """As if somebody had pulled the plug: every process in it is killed."""
        self._space.stop(signal.SIGKILL)
