# SPDX-License-Identifier: Apache-2.0
"""What an operator asks of a running server: a bundle for whoever looks into a problem, and other
limits without a restart."""

import json
import pathlib
import re
import shutil
import stat
import subprocess
import tarfile
import tempfile
import unittest
import urllib.request

import grpc
from remesh.v1 import plan_pb2, plan_pb2_grpc, state_pb2

from harness import BIN_DIR, CALL_SECONDS, Array, ClusterTest, targets, text_sharding
from pki import Authority, Folder

STATE = "jobs/admin/states/model"
ARRAYS = [Array("w", "f32", (8, 8), 1)]
ROWS, COLUMNS = text_sharding("{devices=[2,1]<=[2]}", 0, 1), text_sharding(
    "{devices=[1,2]<=[2]}", 0, 1
)
SERVER_PARTS = {"server.json", "settings.yaml", "readyz.txt", "metrics.txt", "log.txt"}
LISTS = {
    "states.json",
    "executions.json",
    "workers.json",
    "plans.json",
    "topology.json",
    "cache.json",
}


class BundleTest(ClusterTest):
    HOSTS, DEVICES_PER_HOST = 1, 2

    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="remesh-admin-"))
        cls.addClassCleanup(shutil.rmtree, cls.root)
        super().setUpClass()

    def ctl(self, *words, tls=None, code=0):
        flags = (
            ["--tls-ca", tls.ca, "--tls-cert", tls.certificate, "--tls-key", tls.key] if tls else []
        )
        done = subprocess.run(
            [BIN_DIR / "remeshctl", *words, *flags],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def bundle(self, name, tls=None):
        """Its files by name."""
        path = self.root / name
        self.ctl(
            "debug", "bundle", "-o", str(path), "--server", self.cluster.server_address, tls=tls
        )
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        with tarfile.open(path) as tar:
            self.assertEqual(len({pathlib.PurePath(member.name).parent for member in tar}), 1)
            return {
                pathlib.PurePath(member.name).name: tar.extractfile(member).read().decode()
                for member in tar
            }


class DebugBundleTest(BundleTest):
    def test_a_bundle_has_what_the_server_is_and_has(self):
        self.create_and_write(STATE, ARRAYS, ROWS)
        self.move(STATE, 1, targets(ARRAYS, COLUMNS))
        files = self.bundle("all.tar.gz")
        self.assertEqual(set(files), SERVER_PARTS | LISTS | {"bundle.json"})
        manifest = json.loads(files["bundle.json"])
        self.assertEqual(manifest["parts"], {name: "ok" for name in SERVER_PARTS | LISTS})
        server = json.loads(files["server.json"])
        self.assertEqual(server["version"], manifest["remeshctl_version"])
        self.assertIn(f"journal_path: {self.cluster.root}", files["settings.yaml"].replace('"', ""))
        self.assertIn("serving: ok", files["readyz.txt"])
        for series in ("remesh_build_info{", "remesh_states{", "process_resident_memory_bytes "):
            self.assertIn(series, files["metrics.txt"])
        self.assertIn('msg="server started"', files["log.txt"])
        self.assertEqual(json.loads(files["states.json"])["states"][0]["name"], STATE)
        self.assertEqual(
            json.loads(files["executions.json"])["executions"][0]["phase"], "SUCCEEDED"
        )
        self.assertEqual(json.loads(files["workers.json"])["workers"][0]["name"], "workers/host-0")
        self.assertTrue(json.loads(files["plans.json"])["plans"])
        # What a server reads is what it can be started with.
        settings = self.root / "settings.yaml"
        settings.write_text(files["settings.yaml"])
        checked = subprocess.run(
            [BIN_DIR / "remesh-server", "--config", settings, "--check-config"],
            capture_output=True,
            text=True,
            timeout=CALL_SECONDS,
            check=False,
        )
        self.assertEqual((checked.stdout, checked.stderr), ("ok\n", ""))

    def test_no_file_where_nothing_can_be_had_or_one_is_there(self):
        path = self.root / "none.tar.gz"
        done = self.ctl(
            "debug", "bundle", "-o", str(path), "--server", "127.0.0.1:1", "--timeout", "5", code=1
        )
        self.assertIn("UNREACHABLE", done.stderr)
        self.assertFalse(path.exists())
        path.write_text("another's")
        done = self.ctl(
            "debug", "bundle", "-o", str(path), "--server", self.cluster.server_address, code=1
        )
        self.assertIn("FILE_EXISTS", done.stderr)
        self.assertEqual(path.read_text(), "another's")


class RolesTest(BundleTest):
    """With TLS everybody gets what the role may see."""

    @classmethod
    def setUpClass(cls):
        root = pathlib.Path(tempfile.mkdtemp(prefix="remesh-admin-tls-"))
        cls.addClassCleanup(shutil.rmtree, root)
        authority = Authority("admin")
        cls.addClassCleanup(authority.close)
        cls.folders = {
            path: Folder(root, path).write(authority)
            for path in (
                "server",
                "worker/host-0",
                "job/admin/trainer",
                "admin/test",
                "viewer/support",
            )
        }
        cls.TLS, cls.CLUSTER_TLS = (
            cls.folders["job/admin/trainer"].tls(),
            cls.folders["admin/test"].tls(),
        )
        files = (("certificate", "tls.crt"), ("key", "tls.key"))
        cls.SERVER_CONFIG = [
            f"tls_client_ca_file: {root}/server/now/ca.crt",
            *(f"tls_{kind}_file: {root}/server/now/{name}" for kind, name in files),
        ]
        cls.WORKER_CONFIG = [
            f"tls_{kind}_file: {root}/worker-{{host}}/now/{name}"
            for kind, name in (("ca", "ca.crt"), *files)
        ]
        super().setUpClass()

    def test_a_viewer_gets_all_of_a_bundle(self):
        files = self.bundle("viewer.tar.gz", self.folders["viewer/support"].tls())
        self.assertEqual(set(files), SERVER_PARTS | LISTS | {"bundle.json"})

    def test_what_a_job_may_not_see_is_named_with_its_error(self):
        files = self.bundle("job.tar.gz", self.folders["job/admin/trainer"].tls())
        self.assertEqual(
            set(files), {"workers.json", "plans.json", "topology.json", "cache.json", "bundle.json"}
        )
        parts = json.loads(files["bundle.json"])["parts"]
        for part, method in (
            ("server.json", "GetServer"),
            ("states.json", "ListStates"),
            ("executions.json", "ListExecutions"),
        ):
            self.assertRegex(
                parts[part], f"^PERMISSION_DENIED: .*job/admin/trainer may not call {method}"
            )

    def test_a_backup_is_for_administrators(self):
        for path in ("viewer/support", "job/admin/trainer"):
            file = self.root / "refused.db"
            done = self.ctl(
                "journal",
                "backup",
                str(file),
                "--server",
                self.cluster.server_address,
                tls=self.folders[path].tls(),
                code=1,
            )
            self.assertIn("ROLE_DENIED", done.stderr)
            self.assertFalse(list(self.root.glob("refused.db*")))
        self.ctl(
            "journal",
            "backup",
            str(self.root / "taken.db"),
            "--server",
            self.cluster.server_address,
            tls=self.CLUSTER_TLS,
        )


class LiveSettingsTest(BundleTest):
    """Limits of calls and the audit log change while the server runs."""

    def gauge(self, name):
        text = (
            urllib.request.urlopen(self.cluster.server_metrics_url, timeout=CALL_SECONDS)
            .read()
            .decode()
        )
        return float(re.search(rf"^remesh_config_{name} (\S+)$", text, re.M)[1])

    def set(self, text, taken=1):
        before = self.gauge("last_reload_success_timestamp_seconds")
        self.file.write_text(self.before + text)
        if taken:
            self.wait_until(
                "it is taken", lambda: self.gauge("last_reload_success_timestamp_seconds") > before
            )
        self.wait_until(
            "it is taken, or refused", lambda: self.gauge("last_reload_successful") == taken
        )
        self.assertEqual(self.gauge("restart_required"), 0)

    def create_plan(self):
        """The reason why not, or ""."""
        with self.cluster.channel() as channel:
            try:
                plan_pb2_grpc.PlanServiceStub(channel).CreatePlan(
                    plan_pb2.CreatePlanRequest(), timeout=CALL_SECONDS
                )
            except grpc.RpcError as error:
                return "RATE_LIMITED" if "more often than" in error.details() else ""
        return ""

    def delete(self, state):
        with self.assertRaises(grpc.RpcError):
            self.controller.states.DeleteState(
                state_pb2.DeleteStateRequest(name=state), timeout=CALL_SECONDS
            )

    def test_they_take_effect_without_a_restart(self):
        self.file = self.cluster.root / "server.yaml"
        self.before = self.file.read_text()
        self.addCleanup(self.file.write_text, self.before)
        first, second = self.root / "first.jsonl", self.root / "second.jsonl"
        self.set("calls_per_second: 0.001\ncalls_burst: 1\n")
        self.assertEqual(
            [self.create_plan() for _ in range(3)], ["", "RATE_LIMITED", "RATE_LIMITED"]
        )
        self.set(f"calls_per_second: 0\naudit_log_file: {first}\n")
        self.assertEqual([self.create_plan() for _ in range(3)], ["", "", ""])
        self.delete("jobs/admin/states/one")
        self.wait_until("its line", lambda: "jobs/admin/states/one" in first.read_text())
        self.assertNotIn("CreatePlan", first.read_text())
        # One that cannot be written changes nothing of all that the file says.
        self.set(
            f"calls_per_second: 0.001\ncalls_burst: 1\naudit_log_file: {self.root}/no/folder\n",
            taken=0,
        )
        self.assertEqual([self.create_plan() for _ in range(3)], ["", "", ""])
        self.delete("jobs/admin/states/two")
        self.wait_until("its line", lambda: "jobs/admin/states/two" in first.read_text())
        self.set(f"audit_log_file: {second}\naudit_reads: true\n")
        self.create_plan()
        self.wait_until("its line", lambda: "CreatePlan" in second.read_text())
        self.assertIn(
            f"audit_log_file: {second}",
            self.bundle("live.tar.gz")["settings.yaml"].replace('"', ""),
        )
        self.set("")
        self.delete("jobs/admin/states/three")
        self.assertNotIn("three", first.read_text() + second.read_text())


if __name__ == "__main__":
    unittest.main()
