# SPDX-License-Identifier: Apache-2.0
"""The processes of scripts/bench fleet: a real server, and one process of all fake workers."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

DEVICES = 8  # of a host
MOVE_SECONDS = 600  # that anything may take


def on_core(core):
    """A command's prefix that keeps it on one core; nothing where there is one core only."""
    return (
        ["taskset", "-c", str(core)]
        if shutil.which("taskset") and (os.cpu_count() or 1) > 1
        else []
    )


class Server:
    def __init__(self, build, folder, settings=()):
        """settings: more lines of its configuration."""
        self.client = None  # who started a move last
        self._binary, self._folder, self._port = build / "bin" / "remesh-server", folder, 0
        self._settings = settings
        self.hosts = 0
        self.start()

    def start(self):
        ports = self._folder / "ports"
        ports.unlink(missing_ok=True)
        config = self._folder / "config.yaml"
        config.write_text(
            "\n".join(
                [
                    f"listen_address: 127.0.0.1:{self._port}",
                    "metrics_address: ''",
                    "log_level: warning",
                    "connections_per_address: 1000",
                    f"journal_path: {self._folder / 'journal.db'}",
                    f"port_file: {ports}",
                    *self._settings,
                    "",
                ]
            )
        )
        begin = time.monotonic()
        with open(self._folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*on_core(0), self._binary, "--config", config], stderr=log
            )
        while not ports.exists():
            if self.process.poll() is not None:
                sys.exit((self._folder / "log").read_text()[-2000:])
            time.sleep(0.01)
        self.start_seconds = time.monotonic() - begin
        self._port = int(re.search(r"listen_port: (\d+)", ports.read_text())[1])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        begin = time.monotonic()
        self.process.terminate()
        self.process.wait()
        self.stop_seconds = time.monotonic() - begin

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Stops it, and starts it once more to see how long that takes."""
        if self.process.poll() is None and sys.exc_info()[0] is None:
            self.stop()
            self.start()
        with contextlib.suppress(ProcessLookupError):
            self.kill()

    @property
    def address(self):
        return f"127.0.0.1:{self._port}"

    def cpu_seconds(self):
        fields = self._proc("stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, key):
        """VmRSS: resident now; VmHWM: the most since reset_peak(). In MB."""
        return (
            int(re.search(rf"^{key}:\s*(\d+)", self._proc("status").read_text(), re.M)[1])
            * 1024
            / 1e6
        )

    def hosts_lost(self):
        """How often its log says that a host is away."""
        return (self._folder / "log").read_text().count(" is away: ")

    def reset_peak(self):
        self._proc("clear_refs").write_text("5")

    def _proc(self, name):
        return pathlib.Path(f"/proc/{self.process.pid}/{name}")


class Fleet:
    """The process of all fake workers."""

    def __init__(self, build, server, hosts):
        server.hosts = hosts
        self._server = server
        self.process = subprocess.Popen(
            [
                *on_core(1),
                build / "bin" / "fleet-workers",
                "--server",
                server.address,
                "--hosts",
                str(hosts),
                "--devices",
                str(DEVICES),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.total = {}

    def ask(self, line):
        """For "counts", also sums the counts since the last ask("counts"); see `commits`."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if line == "counts":
            self.total = {}
        return answer

    def _look(self):
        self.process.stdin.write("counts\n")
        self.process.stdin.flush()
        for key, value in json.loads(self.process.stdout.readline()).items():
            more = self.total.get(key, 0) if key not in ("attached", "largest_prepare") else 0
            self.total[key] = (
                max(self.total.get(key, 0), value) if key == "largest_prepare" else value + more
            )
        if self.total["aborts"]:
            sys.exit(f"an attempt was aborted: {self._server.client.error()}")

    @property
    def commits(self):
        self._look()
        return self.total["commits"]

    @property
    def attached(self):
        self._look()
        return self.total["attached"]

    def wait_until(self, what, so):
        deadline = time.monotonic() + MOVE_SECONDS
        while not so():
            if time.monotonic() > deadline:
                sys.exit(f"not within {MOVE_SECONDS} s: {what}; {self.total}")
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
