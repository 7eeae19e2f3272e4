# SPDX-License-Identifier: Apache-2.0
"""What a trainer of the worker's group, and any other user, can do with the worker's folders:
processes of three users.

Needs root, to start processes as other users; skipped otherwise.
"""

import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from harness import BIN_DIR

WORKER, TRAINER, STRANGER = 64101, 64102, 64103  # users; the group has the worker's number
GROUP = WORKER
SECONDS = 30.0
STATE = "jobs/folders/states/s"
SPEC = {
    "topology": {
        "hosts": [
            {
                "name": "h",
                "deviceIds": [0, 1],
                "nics": 1,
                "nicBytesPerSecond": 1e9,
                "fabricBytesPerSecond": 1e10,
            }
        ]
    },
    "arrays": [
        {
            "name": "w",
            "shape": [8],
            "elementType": "u8",
            "sharding": {"hloText": "{devices=[2]<=[2]}", "devices": {"ids": [0, 1]}},
        }
    ],
}


@unittest.skipUnless(os.geteuid() == 0, "starts processes as other users, which only root may")
class FoldersTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="remesh-folders-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.root.chmod(0o755)
        self.bin = self.root / "bin"  # where other users can read them, wherever the build is
        self.bin.mkdir()
        for name in ("remesh-server", "remesh-worker", "remeshctl"):
            shutil.copy(BIN_DIR / name, self.bin)
        self.buffers, self.sockets = self._folder("buffers", WORKER, 0o2750), self._folder(
            "run", WORKER, 0o2750
        )
        self.work = self._folder("work", WORKER, 0o750)
        self.home = self._folder("home", TRAINER, 0o755, TRAINER)

    # ---- tests ----

    def test_a_trainer_of_the_group_cannot_become_the_host(self):
        """Regression: `agent` made a link to a file of the trainer's got the secret by which the
        host proves itself."""
        self._start_server()
        self.buffers.chmod(0o2770)  # as packages made it
        worker = self._start_worker()
        if not self._attached(worker):
            self._is_refused(
                worker,
                "buffer_directory",
                f"{self.buffers} has mode 2770",
                f"chmod g-w,o-w {self.buffers}",
            )
            return
        loot = self.home / "loot"
        self._as(
            TRAINER,
            "sh",
            "-c",
            f"touch {loot}; chmod 666 {loot}; cd {self.buffers}; mv agent {self.home}/agent; ln "
            f"-s {loot} agent",
        )
        self._create_and_put()
        self._move("{devices=[1]<=[1]}", [1])
        worker.terminate()
        worker.wait(SECONDS)
        self._start_worker()
        self._move_soon("{devices=[1]<=[1]}", [0])
        self.assertEqual(loot.stat().st_size, 0, f"the trainer has {loot.read_bytes()!r}")

    def test_members_of_the_group_use_the_folders_and_cannot_change_them(self):
        self._start_server()
        self.assertTrue(self._attached(self._start_worker()))
        self._create_and_put()
        saved = self.home / "saved"
        self._as(TRAINER, "mkdir", saved)
        self._ctl(TRAINER, "get", STATE, saved, "--generation", "1", "--socket", self._socket)
        self.assertEqual((saved / "w.npy").read_bytes()[-8:], bytes(range(8)))
        self._ctl(
            TRAINER, "put", STATE, self.home, "--unseal", "--write", "2", "--socket", self._socket
        )
        for words in (
            ("mv", self.buffers / "agent", self.home),
            ("ln", "-s", self.home, self.buffers / "agent.spare1"),
            ("mv", self._socket, self.sockets / "other.sock"),
            ("rm", "-f", self._socket),
            ("touch", self.buffers / "new"),
            ("cat", self.buffers / "agent"),
            ("cat", self.buffers / "lock"),
            *(("touch", folder / "new") for folder in self.buffers.rglob("*") if folder.is_dir()),
        ):
            self.assertNotEqual(self._try_as(TRAINER, *words).returncode, 0, words)
        self.assertNotEqual(self._try_as(STRANGER, "ls", self.buffers, groups=()).returncode, 0)
        # Nothing of the worker's is shared but shards and sockets.
        for path in (self.buffers, *self.buffers.rglob("*")):
            mode = path.stat().st_mode
            self.assertFalse(mode & stat.S_IWOTH or (path.is_dir() and mode & stat.S_IWGRP), path)

    def test_what_another_user_may_have_left_there_is_refused_at_the_start(self):
        """Regression: a FIFO hung the start without a line, and a link led to a file that was
        overwritten."""
        victim = self.root / "victim"
        for name in ("lock", "agent", "agent.spare0"):
            for kind in ("link", "fifo", "two names", "another user's"):
                with self.subTest(name, kind=kind):
                    for path in self.buffers.iterdir():
                        path.unlink()
                    self._give("precious", victim, WORKER)
                    victim.chmod(0o600)
                    path = self.buffers / name
                    if name == "agent.spare0":
                        self._give("", self.buffers / "agent", WORKER)
                        (self.buffers / "agent").unlink()
                    if kind == "link":
                        path.symlink_to(victim)
                    elif kind == "fifo":
                        os.mkfifo(path)
                    elif kind == "two names":
                        os.link(victim, path)
                    else:
                        self._give("", path, TRAINER)
                        path.chmod(0o666)
                    self._is_refused(self._start_worker(), str(path))
                    self.assertEqual(victim.read_text(), "precious")
                    path.unlink()

    def test_a_folder_that_another_user_made_first_is_refused(self):
        """As in /dev/shm, where everybody may make folders."""
        shared = self._folder("shm", 0, 0o1777, 0)
        self.buffers = shared / "remesh"
        self._as(STRANGER, "sh", "-c", f"mkdir {self.buffers}; chmod 777 {self.buffers}")
        self._is_refused(
            self._start_worker(),
            "buffer_directory",
            f"belongs to user {STRANGER}",
            f"chown {WORKER} {self.buffers}",
        )
        self._as(STRANGER, "rmdir", self.buffers)
        self._as(STRANGER, "ln", "-s", self.work, self.buffers)
        self._is_refused(self._start_worker(), "buffer_directory")

    def test_a_socket_that_others_could_replace_is_refused(self):
        for mode in (0o2770, 0o777, 0o1777):
            self.sockets.chmod(mode)
            self._is_refused(
                self._start_worker(),
                "socket_path",
                f"{self.sockets} has mode {mode:04o}",
                f"chmod g-w,o-w {self.sockets}",
            )
        self.sockets.chmod(0o750)
        os.chown(self.sockets, STRANGER, GROUP)
        self._is_refused(self._start_worker(), "socket_path", f"belongs to user {STRANGER}")
        # Such as /tmp.
        os.chown(self.sockets, 0, 0)
        self.sockets.chmod(0o1777)
        self._start_server()
        self.assertTrue(self._attached(self._start_worker()))

    def test_a_journal_is_the_servers_own(self):
        """In a pod, fsGroup makes a volume's folder 2775 and an emptyDir 2777, and the server
        cannot change that: it warns."""
        for mode in (0o2775, 0o2777):
            self.work = self._folder(f"volume{mode:o}", 0, mode)
            self._start_server()
            self.assertRegex(
                self._log("server"),
                f'level=warning msg="others may replace the journal.*{self.work} has mode {mode:o}',
            )
            self._try_as(WORKER, self.bin / "remeshctl", "states", "list", "--server", self.server)
        victim = self.home / "victim"
        for kind in ("link", "another user's"):
            self.work = self._folder(f"left-{kind[:4]}", WORKER, 0o2750)
            path = self.work / "journal.db"
            self._give("", victim, WORKER)
            if kind == "link":
                path.symlink_to(victim)
            else:
                self._give("", path, TRAINER)
                path.chmod(0o666)
            server = self._popen("server", self._server_words())
            self.assertNotEqual(server.wait(SECONDS), 0)
            self.assertIn(
                "is a symbolic link" if kind == "link" else f"belongs to user {TRAINER}",
                self._log("server"),
            )
            self.assertEqual(victim.read_text(), "")

    # ---- steps ----

    @property
    def _socket(self):
        return self.sockets / "worker.sock"

    def _folder(self, name, user, mode, group=GROUP):
        path = self.root / name
        path.mkdir()
        os.chown(path, user, group)
        path.chmod(mode)
        return path

    def _give(self, text, path, user):
        path.write_text(text)
        os.chown(path, user, GROUP)

    def _try_as(self, user, *words, groups=(GROUP,), **more):
        return subprocess.run(
            [*map(str, words)],
            user=user,
            group=user,
            extra_groups=groups,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=self.root,
            **more,
        )

    def _as(self, user, *words):
        result = self._try_as(user, *words)
        self.assertEqual(result.returncode, 0, f"{words}: {result.stdout}{result.stderr}")
        return result.stdout

    def _ctl(self, user, *words):
        return self._as(user, self.bin / "remeshctl", *words)

    def _popen(self, name, words):
        log = open(self.root / f"{name}.log", "wb")  # pylint: disable=consider-using-with
        self.addCleanup(log.close)
        process = subprocess.Popen(
            [*map(str, words)],
            stdout=log,
            stderr=log,
            user=WORKER,
            group=GROUP,
            extra_groups=(),
            cwd=self.work,
        )  # pylint: disable=consider-using-with
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def _ports(self, name, process):
        path, give_up = self.work / f"{name}.ports", time.monotonic() + SECONDS
        while not path.exists() and process.poll() is None:
            self.assertLess(time.monotonic(), give_up, f"{name} hangs: {self._log(name)}")
            time.sleep(0.02)
        return (
            dict(line.split(": ", 1) for line in path.read_text().splitlines())
            if path.exists()
            else {}
        )

    def _log(self, name):
        return (self.root / f"{name}.log").read_text()

    def _server_words(self):
        return [
            self.bin / "remesh-server",
            "--listen-address=127.0.0.1:0",
            "--metrics-address=127.0.0.1:0",
            f"--journal-path={self.work}/journal.db",
            f"--port-file={self.work}/server.ports",
        ]

    def _start_server(self):
        process = self._popen("server", self._server_words())
        self.server = f"127.0.0.1:{self._ports('server', process)['listen_port']}"

    def _start_worker(self):
        (self.work / "worker.ports").unlink(missing_ok=True)
        return self._popen(
            "worker",
            [
                self.bin / "remesh-worker",
                "--host=h",
                f"--server-address={getattr(self, 'server', '127.0.0.1:1')}",
                "--device-ids=0,1",
                "--nic-bytes-per-second=1e9",
                "--fabric-bytes-per-second=1e10",
                f"--buffer-directory={self.buffers}",
                f"--socket-path={self._socket}",
                "--metrics-address=127.0.0.1:0",
                "--data-bind-address=127.0.0.1:0",
                f"--port-file={self.work}/worker.ports",
            ],
        )

    def _attached(self, worker):
        """Waits until the worker is attached, or has ended."""
        self._ports("worker", worker)
        give_up = time.monotonic() + SECONDS
        while worker.poll() is None and "msg=attached" not in self._log("worker"):
            self.assertLess(time.monotonic(), give_up, self._log("worker"))
            time.sleep(0.02)
        return worker.poll() is None

    def _is_refused(self, worker, *texts):
        try:
            code = worker.wait(SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()
            self.fail(f"it runs or hangs: {self._log('worker')!r}")
        self.assertNotEqual(code, 0)
        for text in texts:
            self.assertIn(text, self._log("worker"))

    def _create_and_put(self):
        import numpy as np  # pylint: disable=import-outside-toplevel

        np.save(self.home / "w.npy", np.arange(8, dtype=np.uint8))
        spec = self.home / "state.json"
        spec.write_text(json.dumps({"name": STATE, "spec": SPEC}))
        self._ctl(TRAINER, "states", "create", "-f", spec, "--server", self.server)
        give_up = time.monotonic() + SECONDS
        while (
            self._try_as(
                TRAINER, self.bin / "remeshctl", "put", STATE, self.home, "--socket", self._socket
            ).returncode
            != 0
        ):
            self.assertLess(time.monotonic(), give_up, self._log("worker"))
            time.sleep(0.05)
        while (
            json.loads(
                self._ctl(TRAINER, "states", "get", STATE, "-o", "json", "--server", self.server)
            )["phase"]
            != "READY"
        ):
            self.assertLess(time.monotonic(), give_up)
            time.sleep(0.05)

    def _targets(self, hlo_text, ids):
        targets = self.home / "targets.json"
        targets.write_text(
            json.dumps(
                {
                    "arrays": [
                        {"name": "w", "sharding": {"hloText": hlo_text, "devices": {"ids": ids}}}
                    ]
                }
            )
        )
        return targets

    def _move(self, hlo_text, ids):
        self._ctl(
            TRAINER,
            "reshard",
            STATE,
            "--targets",
            self._targets(hlo_text, ids),
            "--server",
            self.server,
        )

    def _move_soon(self, hlo_text, ids):
        give_up = time.monotonic() + SECONDS
        words = (
            "reshard",
            STATE,
            "--targets",
            self._targets(hlo_text, ids),
            "--server",
            self.server,
        )
        while (
            self._try_as(TRAINER, self.bin / "remeshctl", *words).returncode != 0
            and time.monotonic() < give_up
        ):
            time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(unittest.main())
