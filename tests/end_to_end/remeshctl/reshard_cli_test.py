# SPDX-License-Identifier: Apache-2.0
"""remeshctl reshard: repeated by its request id, and waiting for a move that outlasts the wait."""

import contextlib
import json
import os
import signal
import subprocess
import unittest

from google.protobuf import json_format

from harness import BIN_DIR, Array, ClusterTest, targets, text_sharding

ARRAYS = [Array("w", "f32", (24, 6))]
ROWS = text_sharding("{devices=[4,1]<=[4]}", 0, 1, 2, 3)
COLUMNS = text_sharding("{devices=[1,4]<=[4]}", 0, 1, 2, 3)


class ReshardCommandTest(ClusterTest):
    HOSTS = 2

    def start(self, *words):
        """Starts remeshctl; the caller ends it."""
        process = subprocess.Popen(
            [BIN_DIR / "remeshctl", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "REMESH_SERVER": self.cluster.server_address},
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def ctl(self, *words, code=0):
        """Runs remeshctl; returns its stdout and stderr."""
        process = self.start(*words)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, out + err)
        return out, err

    def reshard(self, state, sharding, *words):
        """The words of a move."""
        file = self.cluster.root / f"{state.rsplit('/', 1)[1]}.json"
        file.write_text(json_format.MessageToJson(targets(ARRAYS, sharding)))
        return ("reshard", state, "-f", str(file), *words)

    def test_a_repeated_request_id_gives_the_same_execution(self):
        """Regression: the second run took the generation to which the first had moved the state:
        REQUEST_ID_REUSED."""
        state = "jobs/cli/states/repeated"
        self.create_and_write(state, ARRAYS, ROWS)
        words = self.reshard(state, COLUMNS, "--request-id", "night-1", "-o", "json")
        first, again = (json.loads(self.ctl(*words)[0]) for _ in range(2))
        self.assertEqual((first["phase"], first["name"]), ("SUCCEEDED", again["name"]))
        self.assertEqual(
            json.loads(self.ctl("states", "get", state, "-o", "json")[0])["generation"], "2"
        )
        # The id of another request is still refused, and a later state of this name has its own
        # ids.
        self.assertIn(
            "REQUEST_ID_REUSED",
            self.ctl(*self.reshard(state, ROWS, "--request-id", "night-1"), code=1)[1],
        )
        self.ctl("states", "delete", state)
        self.create_and_write(state, ARRAYS, ROWS)
        self.assertNotEqual(json.loads(self.ctl(*words)[0])["name"], first["name"])

    @contextlib.contextmanager
    def waiting(self, state, *words):
        """A waiting remeshctl and the name of its execution, which cannot end before the block
        does."""
        self.create_and_write(state, ARRAYS, ROWS)
        worker = self.cluster.workers["host-1"].popen
        worker.send_signal(signal.SIGSTOP)
        try:
            process = self.start(*self.reshard(state, COLUMNS, *words))
            name = process.stderr.readline().rstrip("\n")
            self.assertRegex(name, "^jobs/cli/executions/[0-9a-f]+$")
            yield process, name
        finally:
            worker.send_signal(signal.SIGCONT)
        self.cluster.wait_workers()

    def assert_names(self, text, name):
        self.assertIn(f"{name} may still run: see remeshctl executions get {name}\n", text)
        self.ctl("executions", "get", name)

    def test_ctrl_c_names_what_may_still_run(self):
        """Regression: it ended without a word of the execution that it had started."""
        with self.waiting("jobs/cli/states/interrupted") as (process, name):
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)
            self.assertEqual(process.returncode, -signal.SIGINT)
        self.assert_names(err, name)

    def test_a_server_that_stays_away_leaves_the_outcome_unknown(self):
        """Regression: exit code 1 said that the move was refused or had failed."""
        with self.waiting("jobs/cli/states/unknown", "--call-timeout", "1") as (process, name):
            self.cluster.kill_server()
            _, err = process.communicate(timeout=20)
            self.cluster.start_server()
        self.assertEqual(process.returncode, 3)
        self.assertIn("reason: OUTCOME_UNKNOWN\n  cause: UNREACHABLE\n", err)
        self.assert_names(err, name)

    def test_an_execution_that_is_not_there_is_no_unknown_outcome(self):
        self.assertIn(
            "NOT_FOUND", self.ctl("executions", "watch", "jobs/cli/executions/none", code=1)[1]
        )


if __name__ == "__main__":
    unittest.main()
