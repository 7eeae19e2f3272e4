# SPDX-License-Identifier: Apache-2.0
"""remesh.torch saves and restores state dicts: DTensors of every placement, tied weights, Stateful
objects, values that are no tensors; by Job and by torch.distributed.checkpoint."""

import json
import pathlib
import sys
import tempfile
import unittest

import support

sys.path.insert(0, str(support.MODULES))
from remesh.testing import LocalCluster  # noqa: E402  pylint: disable=wrong-import-position

PROGRAM = pathlib.Path(__file__).with_name("torch_trees_process.py")


class TorchTreesTest(unittest.TestCase):

    def setUp(self):
        self.cluster = LocalCluster(support.BIN_DIR, hosts=2, devices_per_host=1).__enter__()
        self.addCleanup(self.cluster.close)

    def world(self, size, which):
        """What each process said, by key."""
        sockets = ",".join(
            self.cluster.worker_socket(self.cluster.host_names[rank % 2]) for rank in range(size)
        )
        with tempfile.TemporaryDirectory() as folder:
            ended = support.run_processes(
                PROGRAM,
                size,
                [f"{folder}/store", which],
                timeout=100,
                GLOO_SOCKET_IFNAME="lo",
                SOCKETS=sockets,
            )
        for process in ended:
            self.assertEqual(process["code"], 0, process["err"][-3000:])
        said = [{} for _ in ended]
        for fields, process in zip(said, ended):
            for line in process["out"].splitlines():
                if line.startswith("{"):
                    fields.update(json.loads(line))
        for fields in said[1:]:
            for key in ("step", "extras", "save", "mismatch", "fails"):
                self.assertEqual(fields[key], said[0][key])
        return said[0]

    def test_what_a_world_saves_another_restores(self):
        four = self.world(4, "first")
        self.assertNotIn("model.uneven", four["arrays"])  # saved once, by the name that sorts first
        self.assertIn("model.tied", four["arrays"])
        self.assertNotIn("model.empty", four["arrays"])
        self.assertEqual(four["extras"], [{"rank": rank} for rank in range(4)])
        self.assertEqual(four["step"], 2)
        self.check_errors(four)
        three = self.world(3, "next")
        self.assertEqual(three["step"], 4)
        self.assertEqual(three["extras"], [None] * 4)
        self.check_errors(three)

    def check_errors(self, said):
        self.assertRegex(
            said["mismatch"],
            r"^StructureMismatch: .*model.more: have none, want f32\[2\]; .*"
            r"model.tied: have f32\[7,5\], want s32\[7,5\]",
        )
        self.assertRegex(
            said["missing_value"], "^StructureMismatch: .*another: have none, want a value"
        )
        self.assertRegex(
            said["dcp_missing"], "StructureMismatch: .*nothing: have none, want a value"
        )
        self.assertRegex(
            said["no_collectives"], "^ValueError: use_collectives: value False must be True"
        )
        self.assertRegex(said["fails"], "^ProcessFailed: process 1: .*bad: ")
        self.assertEqual(said["labels"]["checkpoint-id"], "mine")
        self.assertEqual(json.loads(said["labels"]["torch-ties"]), {"model.uneven": "model.tied"})
        self.assertRegex(said["closed"], "^Closed: ")


if __name__ == "__main__":
    support.main()
