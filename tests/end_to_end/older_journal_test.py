# SPDX-License-Identifier: Apache-2.0
"""The journal goes back in time, or belongs to another cluster: nothing that workers hold is lost,
and somebody is told."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.request

import grpc
from remesh.v1 import state_pb2, worker_pb2, worker_pb2_grpc

from harness import BIN_DIR, CALL_SECONDS, Array, ClusterTest, targets, text_sharding

NAME = "jobs/test/states/kept"
ARRAYS = [Array("w", "f32", (8, 8), 1)]
ROWS = text_sharding("{devices=[2,1]<=[2]}", 0, 1)
COLUMNS = text_sharding("{devices=[1,2]<=[2]}", 0, 1)


class OlderJournalTest(ClusterTest):
    HOSTS, DEVICES_PER_HOST = 2, 1

    def get(self):
        return self.controller.states.GetState(
            state_pb2.GetStateRequest(name=NAME), timeout=CALL_SECONDS, wait_for_ready=True
        )

    def answers(self):
        """Whether the channel, which may still be one to a dead server, reaches the present one."""
        try:
            return self.get()
        except grpc.RpcError as error:
            self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE, error.details())
            return None

    def files(self):
        return [
            path
            for path in self.cluster.root.glob("journal.db*")
            if "plans" not in path.name and "ballast" not in path.name
        ]

    def gauge(self, name):
        with urllib.request.urlopen(self.cluster.server_metrics_url, timeout=CALL_SECONDS) as page:
            for line in page.read().decode().splitlines():
                if line.startswith(name + " "):
                    return float(line.split()[1])
        self.fail(f"no {name}")

    def test_a_volume_restored_from_a_snapshot(self):
        self.create_and_write(NAME, ARRAYS, ROWS)
        self.cluster.stop_server()
        copies = {path: path.read_bytes() for path in self.files()}
        self.cluster.start_server()
        self.wait_until(
            "READY", lambda: self.answers() and self.get().phase == state_pb2.State.READY
        )
        self.move(NAME, 1, targets(ARRAYS, COLUMNS))
        self.wait_until("generation 1 has gone", lambda: not self.readable(1))

        self.restore(copies)  # PATH.head as well: only the workers can know
        self.is_told_and_accepted()
        self.is_discarded_and_deleted()

    def test_a_backup_restored_as_the_manual_says(self):
        self.create_and_write(NAME, ARRAYS, COLUMNS)
        self.move(NAME, 1, targets(ARRAYS, ROWS))  # whose generation is 2
        backup = pathlib.Path(tempfile.mkdtemp(prefix="remesh-backup-")) / "journal.db"
        self.addCleanup(shutil.rmtree, backup.parent)
        self.backup(backup)
        facts = dict(line.split(": ", 1) for line in self.check(backup).stdout.splitlines())
        self.assertEqual(
            (facts["states"], facts["hosts"], facts["bytes"]),
            ("1", "2", str(backup.stat().st_size)),
        )
        self.assertIn("FILE_EXISTS", self.backup(backup, code=1).stderr)
        self.assertEqual([path.name for path in backup.parent.iterdir()], ["journal.db"])
        self.assertFalse(list(self.cluster.root.glob("*.backup.tmp")))

        self.move(NAME, 2, targets(ARRAYS, COLUMNS))
        self.wait_until("generation 2 has gone", lambda: not self.readable(2))
        self.restore({self.cluster.root / "journal.db": backup.read_bytes()})
        self.is_told_and_accepted(newest=3)
        self.is_saved_and_put_back_as_the_runbook_says(newest=3)

    def test_a_damaged_backup_is_told(self):
        backup = pathlib.Path(tempfile.mkdtemp(prefix="remesh-backup-")) / "journal.db"
        self.addCleanup(shutil.rmtree, backup.parent)
        self.create_and_write(NAME, ARRAYS, ROWS)
        self.addCleanup(
            lambda: self.controller.states.DeleteState(
                state_pb2.DeleteStateRequest(name=NAME), timeout=CALL_SECONDS
            )
        )
        self.backup(backup)
        content = bytearray(backup.read_bytes())
        content[content.rindex(b"devices=[")] ^= 1  # in a value: keys have an order
        backup.write_bytes(content)
        self.assertRegex(
            self.check(backup, code=1).stderr,
            r"remesh-server: journal .* is damaged: the digest of key .* differs",
        )
        self.assertIn(
            "there is no journal at", self.check(backup.parent / "nothing", code=1).stderr
        )

    def backup(self, file, code=0):
        return self.run_to_end(
            code,
            "remeshctl",
            "journal",
            "backup",
            str(file),
            "--server",
            self.cluster.server_address,
        )

    def check(self, file, code=0):
        return self.run_to_end(code, "remesh-server", "--check-journal", str(file))

    def run_to_end(self, code, binary, *words):
        done = subprocess.run(
            [BIN_DIR / binary, *words], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def restore(self, copies):
        """These files and no others, as the server finds them when it starts."""
        self.cluster.kill_server()
        for path in self.files():
            path.unlink()
        for path, content in copies.items():
            path.write_bytes(content)
        self.cluster.start_server()

    def is_told_and_accepted(self, newest=2):
        """A journal that ends before the newest generation."""
        self.wait_until(
            "the journal is known to be behind", lambda: self.gauge("remesh_journal_behind") == 1
        )
        self.wait_until("the server answers", self.answers)
        with self.assertRaises(grpc.RpcError) as refused:
            self.controller.states.DeleteState(
                state_pb2.DeleteStateRequest(name=NAME), timeout=CALL_SECONDS
            )
        self.assertEqual(refused.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        self.assertIn("--accept-older-journal=", refused.exception.details())
        self.check_everywhere(
            NAME, newest, ARRAYS
        )  # was: told to free the newest generation, the only one

        journal = (
            refused.exception.details().split("--accept-older-journal=")[1].split()[0].rstrip(".;,")
        )
        self.assertIn(f"journal_uid={journal}", self.cluster.server.log.read_text())
        self.cluster.stop_server()
        self.cluster._server_config.append(f"accept_older_journal: {journal}")
        self.addCleanup(self.cluster._server_config.pop)
        self.cluster.start_server()
        self.wait_until(
            "both are attached", lambda: self.answers() and len(self.get().newer_hosts) == 2
        )
        self.assertEqual(self.gauge("remesh_journal_behind"), 0)
        self.assertEqual(
            (self.get().phase, self.get().generation), (state_pb2.State.LOST, newest - 1)
        )
        self.check_everywhere(NAME, newest, ARRAYS)

    def is_discarded_and_deleted(self, newest=2):
        self.is_listed_and_discarded(newest)
        self.controller.states.DeleteState(
            state_pb2.DeleteStateRequest(name=NAME), timeout=CALL_SECONDS, wait_for_ready=True
        )
        self.wait_until("what was deleted has gone", lambda: not self.readable(newest))

    def is_listed_and_discarded(self, newest):
        """As an operator does it: on host-1 by `discard`, which leaves host-0 alone."""
        at = ("--server", self.cluster.server_address)
        rows = [
            line.split()
            for line in self.run_to_end(0, "remeshctl", "workers", "owed", *at).stdout.splitlines()
        ]
        self.assertEqual([row[0] for row in rows[1:]], ["host-0", "host-1"], rows)
        uid = self.get().uid
        self.assertTrue(
            all(NAME in row and uid in row and str(newest) in row for row in rows[1:]), rows
        )
        self.run_to_end(1, "remeshctl", "workers", "discard", "host-1", NAME, "another", *at)
        refused = self.run_to_end(
            1, "remeshctl", "workers", "discard", "host-1", NAME, uid, *at
        )  # was: discarded
        self.assertIn("LAST_COPY", refused.stderr)
        self.assertIn(f"newer than generation {newest - 1}", refused.stderr)
        self.assertIn(f"remeshctl get {NAME} FOLDER --generation {newest}", refused.stderr)
        self.assertIn("host-1", self.run_to_end(0, "remeshctl", "workers", "owed", *at).stdout)
        done = self.run_to_end(
            0, "remeshctl", "workers", "discard", "host-1", NAME, uid, "--yes", *at
        )
        self.assertRegex(
            done.stdout,
            rf"{NAME} +{newest} .*perhaps the last copy: it is newer than generation {newest - 1}",
        )
        self.wait_until(
            "host-1 has no pending discard",
            lambda: "host-1" not in self.run_to_end(0, "remeshctl", "workers", "owed", *at).stdout,
        )
        self.assertIn("host-0", self.run_to_end(0, "remeshctl", "workers", "owed", *at).stdout)
        self.assertTrue(self.readable(newest))

    def is_saved_and_put_back_as_the_runbook_says(self, newest):
        """docs/runbooks/RemeshBytesOwed.md, which the others of a lost journal name, command by
        command."""
        for page in ("RemeshStatesLost", "RemeshJournalBehind"):
            self.assertIn(
                "(RemeshBytesOwed.md#save-the-last-copy-and-put-it-back)", self.runbook(page)
            )
        owed, get, keep, discard, again, put = re.findall(
            r"(?ms)^```\n(.*?)^```", self.runbook("RemeshBytesOwed")
        )
        folder = pathlib.Path(tempfile.mkdtemp(prefix="remesh-saved-"))
        self.addCleanup(shutil.rmtree, folder)
        uid = self.get().uid
        words = {
            "STATE": NAME,
            "FOLDER": str(folder),
            "GENERATION": str(newest),
            "UID": uid,
            "WRITE": "saved",
        }
        listed = [line.split() for line in self.typed(owed, words).splitlines()[1:]]
        self.assertEqual(
            [row[:7] for row in listed],
            [[host, NAME, uid, str(newest), "READY", "1/1", "-"] for host in self.trainers],
        )
        hosts = [row[0] for row in listed]
        for host in hosts:
            self.typed(get, words, host)
        self.typed(keep, words)
        for host in hosts:
            self.assertIn("perhaps the last copy", self.typed(discard, {**words, "HOST": host}))
        self.assertFalse(self.readable(newest))
        self.typed(again, words)
        for host in hosts:
            self.typed(put, words, host)
        self.wait_until("READY", lambda: self.get().phase == state_pb2.State.READY)
        self.assertNotEqual(self.get().uid, uid)
        self.assertEqual(self.get().write, "saved")
        self.assertEqual(len(self.check_everywhere(NAME, 1, ARRAYS)), 2)
        self.assertEqual(len(self.typed(owed, words).splitlines()), 1)  # the header
        self.controller.states.DeleteState(
            state_pb2.DeleteStateRequest(name=NAME), timeout=CALL_SECONDS
        )

    def runbook(self, page):
        return (
            pathlib.Path(__file__).resolve().parents[2] / "docs" / "runbooks" / f"{page}.md"
        ).read_text()

    def typed(self, commands, words, host=None):
        """What the commands print, which must succeed, with these words in place of capitals; on a
        host, or beside the server."""
        for word, value in words.items():
            commands = re.sub(rf"\b{word}\b", value, commands)
        env = {
            **os.environ,
            "PATH": f"{BIN_DIR}:{os.environ['PATH']}",
            "REMESH_SERVER": self.cluster.server_address,
        }
        if host:
            env["REMESH_SOCKET"] = self.cluster.worker_socket(host)
        done = subprocess.run(
            ["bash", "-ec", commands],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=env,
        )
        self.assertEqual(done.returncode, 0, f"{commands}\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_a_truncated_write_ahead_log_is_refused_at_start(self):
        self.create_and_write(NAME, ARRAYS, ROWS)
        self.cluster.kill_server()
        log = self.cluster.root / "journal.db-wal"
        content = log.read_bytes()
        log.write_bytes(content[: len(content) // 2])
        with self.assertRaises(Exception) as refused:
            self.cluster.start_server()
        self.assertIn("journal", str(refused.exception))
        self.check_everywhere(NAME, 1, ARRAYS)
        log.write_bytes(content)
        self.cluster.start_server()
        self.wait_until(
            "READY", lambda: self.answers() and self.get().phase == state_pb2.State.READY
        )
        self.controller.states.DeleteState(
            state_pb2.DeleteStateRequest(name=NAME), timeout=CALL_SECONDS, wait_for_ready=True
        )

    def test_another_clusters_server_frees_nothing(self):
        self.create_and_write(NAME, ARRAYS, ROWS)
        self.cluster.stop_server()
        aside = self.cluster.root / "aside"
        aside.mkdir()
        for path in self.cluster.root.glob("journal.db*"):
            shutil.move(path, aside / path.name)
        self.cluster.start_server()  # by the same address, with a journal of its own
        self.wait_until(
            "both were refused",
            lambda: all(
                "OTHER_CLUSTER" in worker.log_tail(30) for worker in self.cluster.workers.values()
            ),
        )
        self.check_everywhere(NAME, 1, ARRAYS)
        self.cluster.stop_server()
        for path in self.cluster.root.glob("journal.db*"):
            path.unlink()
        for path in aside.iterdir():
            shutil.move(path, self.cluster.root / path.name)
        self.cluster.start_server()
        self.wait_until(
            "READY", lambda: self.answers() and self.get().phase == state_pb2.State.READY, 60
        )
        self.controller.states.DeleteState(
            state_pb2.DeleteStateRequest(name=NAME), timeout=CALL_SECONDS, wait_for_ready=True
        )

    def test_a_deleted_state_of_a_forgotten_host_is_freed_when_it_comes(self):
        self.create_and_write(NAME, ARRAYS, ROWS)
        self.cluster.workers["host-1"].kill()
        self.wait_until("host-1 is lost", lambda: self.get().phase == state_pb2.State.LOST)
        self.controller.states.DeleteState(
            state_pb2.DeleteStateRequest(name=NAME), timeout=CALL_SECONDS, wait_for_ready=True
        )
        with self.cluster.channel() as channel:
            worker_pb2_grpc.WorkerServiceStub(channel).ForgetWorker(
                worker_pb2.ForgetWorkerRequest(name="workers/host-1"), timeout=CALL_SECONDS
            )
        self.cluster.start_worker("host-1")
        folder = self.cluster.buffers / "host-1"
        self.wait_until(
            "its buffers have gone",
            lambda: not any(
                path.is_file() and path.stat().st_size >= 128 for path in folder.rglob("data*")
            ),
        )

    def readable(self, generation):
        try:
            return self.trainers["host-0"].read(NAME, generation, 0.5)
        except grpc.RpcError:
            return []


if __name__ == "__main__":
    unittest.main()
