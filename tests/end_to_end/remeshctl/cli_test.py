# SPDX-License-Identifier: Apache-2.0
"""remeshctl against a live cluster: put, reshard, get; what it lists; what it exits with."""

import json
import pathlib
import shutil
import tempfile
import unittest
import urllib.parse

import numpy as np

from remesh import oracle
from remesh.elements import byte_count, numpy_dtype

from commands import CommandCase
from harness import Array

STATE = "jobs/cli/states/parameters"
ARRAYS = [
    Array("layer/0.weight", "f32", (13, 8)),
    Array("embedding", "bf16", (10, 6)),
    Array("codes", "s4", (7, 5)),
    Array("step", "s64", ()),
]
ROWS = {"hloText": "{devices=[6,1]<=[6]}", "devices": {"ref": "all"}}
WHOLE = {"hloText": "{replicated}", "devices": {"ref": "all"}}
LISTS = {"all": {"range": {"start": 0, "count": 6}}}


def _rows(array):
    return {"ref": "rows" if array.shape else "whole"}


class CommandTest(CommandCase):
    def test_the_whole_way(self):
        self._write_files()
        self._create()
        socket = self.cluster.worker_socket("host-0")
        unsealed = self.ctl("put", STATE, str(self.folder), "--no-seal", "--socket", socket)
        self.assertRegex(unsealed, r"\n(\d+) +[0-9.]+ k?B +0/\1 +1\n")  # was 0/0
        for host in self.cluster.host_names:
            answer = self.json(
                "put", STATE, str(self.folder), "--socket", self.cluster.worker_socket(host)
            )
            self.assertEqual(answer["sealedShards"], answer["totalShards"])
        # The last worker tells the server after it has answered `put`.
        self.wait_until("READY", lambda: self.json("states", "get", STATE)["phase"] == "READY")

        dry = self._reshard("--validate-only")
        self.assertEqual((dry["name"], self.json("states", "get", STATE)["generation"]), ("", "1"))
        table = self.ctl(
            "reshard", STATE, "--targets", str(self.folder / "targets.yaml"), "--validate-only"
        )
        self.assertRegex(table, r"(?m)^predicted +[0-9.]+ [a-zµ]*s$")
        # What was asked can be looked at, and then done.
        page = self.folder / "plan.html"
        self.ctl("plans", "get", dry["plan"], "--html", str(page), stderr=f"wrote {page}\n")
        self.assertIn("<html", page.read_text())
        execution = self.json("reshard", STATE, "--plan", dry["plan"])
        self.assertEqual((execution["phase"], execution["targetGeneration"]), ("SUCCEEDED", "2"))
        self.assertEqual(execution["plan"], dry["plan"])
        again = self.json("reshard", STATE, "--plan", dry["plan"])
        self.assertEqual(
            (again["phase"], again["targetGeneration"], again["summary"]["totalBytes"]),
            ("SUCCEEDED", "2", "0"),
        )
        self.assertIn(
            "nothing: the state has this layout already\n",
            self.ctl("reshard", STATE, "--targets", str(self.folder / "targets.yaml")),
        )
        self.assertIn(
            "lose_absent_hosts",
            self.error("reshard", STATE, "--plan", dry["plan"], "--lose-absent-hosts"),
        )

        self._lists_what_happened(execution)
        self._gets_every_array()
        self._refuses(execution)
        self._puts_again()
        self.ctl("states", "delete", STATE)
        self.assertIn("NOT_FOUND", self.error("states", "get", STATE))

    def test_a_put_of_wrong_files_takes_nothing_back(self):
        """Regression: the shards were unsealed before the files were looked at, so the state was
        BUILDING."""
        name, socket = "jobs/wrong/states/s", self.cluster.worker_socket("host-0")
        self._write_files()
        self._create(name)
        for host in self.cluster.host_names:
            self.ctl("put", name, str(self.folder), "--socket", self.cluster.worker_socket(host))
        weight = np.load(self.folder / "layer%2F0.weight.npy")
        wrong = {
            "shape": weight.T.copy(),
            "type": weight.astype(np.float64),
            "order": np.asfortranarray(weight),
            "absent": None,
        }
        for generation in (1, 2):
            for kind, content in wrong.items():
                with self.subTest(kind, generation=generation):
                    folder = self._copy_of_files(kind, generation)
                    (folder / "layer%2F0.weight.npy").unlink()
                    if content is not None:
                        np.save(folder / "layer%2F0.weight.npy", content)
                    self.assertIn(
                        "layer%2F0.weight.npy",
                        self.error("put", name, str(folder), "--unseal", "--socket", socket),
                    )
                    saved = folder / "saved"
                    saved.mkdir()
                    self.ctl("get", name, str(saved), "--socket", socket)
                    self.assertEqual(self.json("states", "get", name)["phase"], "READY")
            if generation == 1:
                self.json("reshard", name, "--targets", str(self._targets("[1, 4, 0]")))
        self.ctl("states", "delete", name)

    def test_shards_are_unsealed_and_sealed_without_being_written(self):
        name = "jobs/seals/states/s"
        sockets = {host: self.cluster.worker_socket(host) for host in self.cluster.host_names}
        self._write_files()
        self._create(name)
        for socket in sockets.values():
            self.ctl("put", name, str(self.folder), "--socket", socket)
        answer = self.json(
            "unseal", name, "--array", "step", "--write", "7", "--socket", sockets["host-0"]
        )
        self.assertEqual(int(answer["totalShards"]) - int(answer["sealedShards"]), 2)
        self._becomes(name, "BUILDING")
        for socket in sockets.values():
            answer = self.json("seal", name, "--write", "7", "--socket", socket)
            self.assertEqual(answer["sealedShards"], answer["totalShards"])
        self._becomes(name, "READY")
        self.assertRegex(
            self.ctl("seal", name, "--socket", sockets["host-0"]),
            r"SEALED HERE +GENERATION\n(\d+)/\1 +1\n",
        )
        self.ctl("states", "delete", name)

    def test_hosts_that_hold_nothing_say_so(self):
        """Regression: put and get failed on a host that never held a shard, and no file was made of
        an array without elements."""
        name = "jobs/corner/states/s"
        sharding = {
            "hloText": "{replicated}",
            "devices": {"ids": self.cluster.device_ids("host-0")[:1]},
        }
        hosts = [
            {
                "name": host,
                "deviceIds": self.cluster.device_ids(host),
                "nicBytesPerSecond": 1e9,
                "fabricBytesPerSecond": 1e10,
            }
            for host in self.cluster.host_names
        ]
        arrays = [
            {"name": array, "shape": shape, "elementType": kind, "sharding": sharding}
            for array, shape, kind in (
                ("w", [2, 4], "f32"),
                ("none", [0, 4], "f32"),
                ("few", [4, 0], "bf16"),
            )
        ]
        files = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        spec = files / "corner.json"
        spec.write_text(
            json.dumps({"name": name, "spec": {"topology": {"hosts": hosts}, "arrays": arrays}})
        )
        self.ctl("states", "create", "-f", str(spec))
        np.save(files / "w.npy", np.zeros((2, 4), np.float32))
        for command in ("put", "get"):
            for host in self.cluster.host_names:
                folder = (
                    files if command == "put" else pathlib.Path(tempfile.mkdtemp(dir=self.folder))
                )
                answer = self.ctl(
                    command, name, str(folder), "--socket", self.cluster.worker_socket(host)
                )
                with self.subTest(command, host=host):
                    self.assertEqual(
                        answer == f"nothing of {name} is on this host\n", host != "host-0", answer
                    )
                    self.assertEqual(
                        (folder / "few.json").exists()
                        and np.load(folder / "none.npy").shape == (0, 4),
                        command == "get",
                    )
                self.assertIn(
                    "STATE_NOT_FOUND",
                    self.error(
                        command,
                        name + "x",
                        str(folder),
                        "--socket",
                        self.cluster.worker_socket(host),
                    ),
                )
        self.ctl("states", "delete", name)

    def test_usage_errors_exit_2(self):
        for words in (
            (),
            ("nonsense",),
            ("states",),
            ("states", "get"),
            ("reshard", STATE),
            ("put", STATE),
            ("states", "list", "-o", "xml"),
            ("plans", "list", "--timeout", "-1"),
        ):
            self.ctl(*words, code=2)
            self.assertTrue(self.last_stderr, words)

    def test_a_server_that_is_not_there(self):
        message = self.error("states", "list", "--server", "127.0.0.1:1", "--timeout", "5")
        self.assertIn("UNREACHABLE", message)
        self.assertIn("127.0.0.1:1", message)

    def test_the_port_of_metrics_is_no_server(self):
        address = urllib.parse.urlsplit(self.cluster.server_metrics_url).netloc
        self.assertIn(
            f"cannot reach {address}: it speaks HTTP, not gRPC",
            self.error("states", "list", "--server", address, "--timeout", "5"),
        )

    def _write_files(self):
        for array in ARRAYS:
            count = int(np.prod(array.shape, dtype=np.int64))
            content = np.zeros(byte_count(array.element_type, count), np.uint8)
            oracle.fill(
                content,
                array.name,
                array.element_type,
                array.shape,
                [0] * len(array.shape),
                array.shape,
            )
            stem = array.name.replace("/", "%2F")
            if array.element_type in ("f32", "s64"):
                np.save(
                    self.folder / f"{stem}.npy",
                    content.view(numpy_dtype(array.element_type)).reshape(array.shape),
                )
            else:
                (self.folder / f"{stem}.bin").write_bytes(content.tobytes())
                (self.folder / f"{stem}.json").write_text(
                    json.dumps({"element_type": array.element_type, "shape": list(array.shape)})
                )

    def _copy_of_files(self, *names):
        """A folder of its own with the arrays' files."""
        folder = self.folder / "-".join(map(str, names))
        folder.mkdir()
        for path in self.folder.iterdir():
            if path.suffix in (".npy", ".bin", ".json"):
                shutil.copy(path, folder)
        return folder

    def _becomes(self, name, phase):
        self.wait_until(
            f"{name} is {phase}", lambda: self.json("states", "get", name)["phase"] == phase
        )

    def _create(self, name=STATE):
        hosts = [
            {
                "name": host,
                "deviceIds": self.cluster.device_ids(host),
                "nics": 1,
                "nicBytesPerSecond": 1e9,
                "fabricBytesPerSecond": 1e10,
            }
            for host in self.cluster.host_names
        ]
        spec = {
            "topology": {"hosts": hosts},
            "deviceLists": LISTS,
            "shardings": {"rows": ROWS, "whole": WHOLE},
            "arrays": [
                {
                    "name": a.name,
                    "shape": a.shape,
                    "elementType": a.element_type,
                    "sharding": _rows(a),
                }
                for a in ARRAYS
            ],
        }
        self.ctl("states", "create", "-f", "-", stdin=json.dumps({"name": name, "spec": spec}))

    def _reshard(self, *words):
        """To YAML's four columns; scalars stay whole."""
        return self.json("reshard", STATE, "--targets", str(self._targets("[5, 0, 3, 2]")), *words)

    def _targets(self, ids):
        count = len(json.loads(ids))
        lines = [
            f"device_lists: {{some: {{ids: {ids}}}}}",
            "shardings:",
            "  columns: "
            f"{{hlo_text: '{{devices=[1,{count}]<=[{count}]}}', devices: {{ref: some}}}}",
            "  whole: {hlo_text: '{replicated}', devices: {ref: some}}",
            "arrays:",
        ]
        lines += [
            f"  - {{name: {a.name}, sharding: {{ref: {'columns' if a.shape else 'whole'}}}}}"
            for a in ARRAYS
        ]
        targets = self.folder / "targets.yaml"
        targets.write_text("\n".join(lines))
        return targets

    def _lists_what_happened(self, execution):
        self.assertEqual(
            [s["name"] for s in self.json("states", "list", "--parent", "jobs/cli")["states"]],
            [STATE],
        )
        self.assertEqual(self.json("executions", "get", execution["name"])["phase"], "SUCCEEDED")
        self.assertEqual(self.json("executions", "watch", execution["name"])["phase"], "SUCCEEDED")
        self.assertIn(execution["name"], self.ctl("executions", "list"))
        plan = execution["plan"]
        self.assertIn(plan, [p["name"] for p in self.json("plans", "list")["plans"]])
        page = self.folder / "plan.html"
        self.ctl("plans", "get", plan, "--html", str(page), stderr=f"wrote {page}\n")
        self.assertIn(f'"label":"{STATE}"', page.read_text())  # what its title says
        self.assertTrue(self.json("plans", "pin", plan)["pinned"])
        self.assertIn("PLAN_PINNED", self.error("plans", "delete", plan))
        self.assertFalse(self.json("plans", "unpin", plan)["pinned"])
        full = self.json("plans", "get", plan, "--full")
        delivered = sum(
            int(transfer["bytes"]) for transfer in full["transfers"] if not transfer["relay"]
        )
        self.assertGreaterEqual(delivered, int(full["summary"]["totalBytes"]))
        self.ctl("plans", "delete", plan)
        self.assertGreater(int(self.json("cache", "stats")["computations"]), 0)
        workers = self.json("workers", "list")["workers"]
        self.assertEqual(
            [w["name"] for w in workers], [f"workers/{host}" for host in self.cluster.host_names]
        )
        self.assertTrue(self.json("workers", "get", "workers/host-1")["alive"])
        self.assertEqual(self.json("workers", "get", "host-1")["name"], "workers/host-1")
        self.assertIn('did you mean "workers/host-1"?', self.error("workers", "get", "hots-1"))
        self.assertEqual(
            self.ctl("workers", "list", "-o", "name").split(), [w["name"] for w in workers]
        )
        self.assertIn(STATE + "@2", self.ctl("workers", "list", "-o", "wide"))
        yaml = self.ctl("states", "get", STATE, "-o", "yaml")
        self.assertIn(f'name: {STATE}\ngeneration: "2"\nphase: READY\n', yaml)
        header, *rows = self.ctl("workers", "list").splitlines()
        self.assertTrue(header.startswith("NAME"))
        self.assertEqual(len(rows), 3)

    def _gets_every_array(self):
        """Each host adds its shards to the same files; together they are whole."""
        saved = self.folder / "saved"
        saved.mkdir()
        for host in self.cluster.host_names:
            self.ctl("get", STATE, str(saved), "--socket", self.cluster.worker_socket(host))
        for path in self.folder.iterdir():
            if path.suffix in (".npy", ".bin"):
                self.assertTrue((saved / path.name).exists(), path.name)
        for array in ARRAYS:
            stem = str(saved / array.name.replace("/", "%2F"))
            if array.element_type in ("f32", "s64"):
                loaded = np.load(stem + ".npy")
                self.assertEqual(loaded.shape, array.shape)
                content = np.ascontiguousarray(loaded).reshape(-1).view(np.uint8)
            else:
                content = np.fromfile(stem + ".bin", np.uint8)
                self.assertEqual(
                    json.loads(pathlib.Path(stem + ".json").read_text())["element_type"],
                    array.element_type,
                )
            self.assertIsNone(
                oracle.check(
                    content,
                    array.name,
                    array.element_type,
                    array.shape,
                    [0] * len(array.shape),
                    array.shape,
                )
            )

    def _puts_again(self):
        """As for the next move: what was moved is taken back, written and sealed."""
        for host in self.cluster.host_names:
            answer = self.json(
                "put",
                STATE,
                str(self.folder),
                "--unseal",
                "--write",
                "2",
                "--socket",
                self.cluster.worker_socket(host),
            )
            self.assertEqual(
                (answer["sealedShards"], answer["generation"]), (answer["totalShards"], "2")
            )
        self._becomes(STATE, "READY")

    def _refuses(self, execution):
        """Errors name reason and metadata on stderr and exit with 1."""
        self.assertIn("EXECUTION_ENDED", self.error("executions", "cancel", execution["name"]))
        message = self.error("reshard", STATE, "--plan", execution["plan"], "--generation", "1")
        self.assertIn("GENERATION_MISMATCH", message)
        socket = self.cluster.worker_socket("host-0")
        (self.folder / "bad").mkdir()
        self.assertIn(
            "STATE_COMMITTED", self.error("put", STATE, str(self.folder), "--socket", socket)
        )
        retired = self.error(
            "get",
            STATE,
            str(self.folder / "bad"),
            "--socket",
            socket,
            "--generation",
            "1",
            "--wait",
        )
        self.assertIn("code: NOT_FOUND", retired)
        self.assertIn("GENERATION_RETIRED", retired)
        self.assertIn("generation 2", retired)
        self.assertIn(
            "NOT_FOUND",
            self.error("reshard", STATE, "--targets", str(self.folder / "absent.yaml")),
        )


if __name__ == "__main__":
    unittest.main()
