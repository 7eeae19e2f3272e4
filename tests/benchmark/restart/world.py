# SPDX-License-Identifier: Apache-2.0
"""The processes of one world of a job, each a process.py of the side's own Python."""

import json
import os
import pathlib
import socket
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent


class World:
    """Processes that obey the same commands."""

    def __init__(self, build, side, cluster, folder, size, order):
        self.size = size
        self._log = folder / f"{side.name}-{size}.log"
        order = {
            **order,
            "size": size,
            "coordinator": f"127.0.0.1:{_free_port()}",
            "settings": side.settings,
        }
        self._processes = [self._start(build, side, cluster, rank, order) for rank in range(size)]
        self._answers()

    def _start(self, build, side, cluster, rank, order):
        environment = {
            **os.environ,
            "REMESH_SOCKET": cluster.worker_socket(cluster.host_names[rank]),
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": f"{build / 'python'}{os.pathsep}{SOURCE}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        with open(self._log, "a", encoding="utf8") as log:
            return subprocess.Popen(
                [side.python(), SOURCE / f"side_{side.name}.py", json.dumps(order), str(rank)],
                env=environment,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def ask(self, do, **arguments):
        """What each process answers."""
        for process in self._processes:
            process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            process.stdin.flush()
        return self._answers()

    def _answers(self):
        answers = [self._answer(process) for process in self._processes]
        failed = [answer["error"] for answer in answers if "error" in answer]
        if failed:
            self.kill()
            sys.exit(f"{len(failed)} processes failed, the first one by:\n{failed[0]}")
        return answers

    def _answer(self, process):
        for line in process.stdout:
            if line.startswith("answer "):
                return json.loads(line[7:])
        self.kill()
        sys.exit(f"a process ended while it was measured:\n{self._log.read_text()[-3000:]}")

    def close(self):
        for process in self._processes:
            process.stdin.close()
        for process in self._processes:
            process.wait(60)

    def kill(self):
        for process in self._processes:
            process.kill()
            process.wait()


def _free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
