# SPDX-License-Identifier: Apache-2.0
"""The journal's files are deleted under a running server: it decides nothing, says so, and a backup
saves what it has."""

import json
import shutil
import subprocess
import unittest
import urllib.error
import urllib.request

import grpc
from remesh import errors

from harness import BIN_DIR, Array, ClusterTest, targets, text_sharding

ROWS = text_sharding("{devices=[4,1]<=[4]}", 0, 1, 2, 3)
COLUMNS = text_sharding("{devices=[1,4]<=[4]}", 0, 1, 2, 3)
ARRAYS = [Array("w", "f32", (16, 8))]
STATE = "jobs/files/states/{}"


class JournalFilesTest(ClusterTest):
    HOSTS = 2

    def test_a_journal_without_files_decides_nothing_and_is_saved(self):
        kept = STATE.format("kept")
        self.create_and_write(kept, ARRAYS, ROWS)
        for suffix in ("", "-wal", ".head"):
            (self.cluster.root / f"journal.db{suffix}").unlink()
        with self.assertRaises(grpc.RpcError) as refusal:
            self.controller.create_state(self.state_of(STATE.format("late"), ARRAYS, ROWS))
        self.assertEqual(errors.error_info(refusal.exception).reason, "JOURNAL_LOST")
        with self.assertRaises(grpc.RpcError) as refusal:
            self.controller.start_reshard(kept, 1, targets(ARRAYS, COLUMNS))
        self.assertEqual(errors.error_info(refusal.exception).reason, "JOURNAL_LOST")
        self.wait_until("it is not ready", lambda: "journal: lost" in self._readyz())
        self.wait_until(
            "the gauge is 1", lambda: "\nremesh_journal_lost 1\n" in self._get("/metrics")
        )

        # The runbook: save, check, stop, restore.
        saved = self.cluster.root / "saved.db"
        self._run("remeshctl", "journal", "backup", saved, "--server", self.cluster.server_address)
        self._run("remesh-server", "--check-journal", saved)
        self.cluster.stop_server()
        self.assertFalse(
            (self.cluster.root / "journal.db").exists(), "a stopped server writes nothing more"
        )
        shutil.copy(saved, self.cluster.root / "journal.db")
        self.cluster.start_server()
        self.cluster.wait_workers()
        names = [
            state["name"]
            for state in json.loads(
                self._run(
                    "remeshctl",
                    "states",
                    "list",
                    "-o",
                    "json",
                    "--server",
                    self.cluster.server_address,
                )
            )["states"]
        ]
        self.assertEqual(names, [kept])
        self.controller.wait_ready(kept, 20)
        self.move(kept, 1, targets(ARRAYS, COLUMNS))
        self.check_everywhere(kept, 2, ARRAYS)

    def _run(self, binary, *words):
        result = subprocess.run(
            [BIN_DIR / binary, *words], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(
            self.cluster.server_metrics_url.replace("/metrics", "") + path, timeout=20
        ) as answer:
            return answer.read().decode()

    def _readyz(self) -> str:
        try:
            return self._get("/readyz")
        except urllib.error.HTTPError as refused:
            return refused.read().decode()


if __name__ == "__main__":
    unittest.main()
