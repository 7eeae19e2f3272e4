# SPDX-License-Identifier: Apache-2.0
"""What `remeshctl jobs describe` says that the loss of a host costs is what it costs."""

import json
import os
import shutil
import subprocess
import unittest

import job_kills
from waiting import wait_until

import remesh
from remesh import job, local_group, storage
from remesh.testing import LocalCluster

_BIN = os.environ.get("REMESH_BIN_DIR", "build/release/bin")


class DescribeTest(unittest.TestCase):

    def setUp(self):
        self.cluster = LocalCluster(_BIN, 4, 1).__enter__()
        self.addCleanup(self.cluster.close)
        os.environ["REMESH_SERVER"] = self.cluster.server_address

    def world(self, name, hosts, function, **settings):
        """What function(core) returns on process 0 of a world, a process on each host."""

        def run(member):
            with remesh.connect(self.cluster.worker_socket(hosts[member.rank])) as client:
                settings.setdefault("patience", 1)
                with job.Core(name, client=client, job_group=member, **settings) as core:
                    return function(core)

        return local_group.run_together(local_group.LocalGroup.make(len(hosts), 60.0), run)[0]

    # Step 1 is on two hosts, each box; of step 2 each host has rows of its own.
    def save(self, core, steps):
        for step in steps:
            pieces = job_kills.pieces_of(step, core.rank, core.size)
            if step == 1:
                values = job_kills.values(step)
                pieces = [
                    job.Piece(
                        storage.Array(
                            name, "s64", storage.Holders.everywhere(value.shape, core.size)
                        ),
                        [((0,) * value.ndim, value.shape)],
                        lambda box, value=value: value[tuple(slice(*each) for each in zip(*box))],
                    )
                    for name, value in values.items()
                ]
            core.save_pieces(pieces, step, extra={"step": step, "rank": core.rank}, block=True)

    def restore(self, core):
        found = core.restore_arrays(job_kills.arrays_of(core.size))
        job_kills.check(found, core.rank, core.size)
        return found.step

    def remeshctl(self, *arguments):
        command = [os.path.join(_BIN, "remeshctl"), *arguments]
        command += ["--server", self.cluster.server_address]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def describe(self, name):
        """(step -> hosts whose loss costs the save, host -> step that is restored after its
        loss)."""
        said = json.loads(self.remeshctl("jobs", "describe", name, "-o", "json"))
        steps = {save["name"]: save["step"] for save in said["saves"]}
        needed = {
            save["step"]: [each["host"] for each in save["hosts"] if each["lossCostsSave"]]
            for save in said["saves"]
        }
        then = {host["host"]: steps.get(host.get("thenRestored")) for host in said["hosts"]}
        for save in said["saves"]:
            stored = sum(each["bytes"] for each in save["hosts"])
            self.assertEqual(stored, save["totalBytes"])
        for host in said["hosts"]:
            costs = [step for step in needed if host["host"] in needed[step]]
            self.assertEqual(sorted(steps[each] for each in host["lossCosts"]), sorted(costs))
        return needed, then

    def lose(self, host, *names):
        """The host goes, with its memory."""
        self.cluster.workers[host].kill()
        shutil.rmtree(self.cluster.buffers / host)
        for name in names:
            lost = lambda name=name: not self.not_lost_yet(name, host)
            wait_until(lost, f"{name} says that {host} is lost")

    # States that do not say yet that the host is lost, of those that it holds.
    def not_lost_yet(self, name, host):
        said = json.loads(self.remeshctl("jobs", "describe", name, "-o", "json"))
        return [
            save["name"]
            for save in said["saves"]
            if host in [each["host"] for each in save["hosts"]] and host not in save["lostHosts"]
        ]

    def test_the_loss_of_hosts_costs_what_was_predicted(self):
        hosts = self.cluster.host_names
        self.world("rows", hosts, lambda core: self.save(core, (1, 2)), keep=2, replicas=2)
        self.world("whole", hosts, lambda core: self.save(core, (1,)), replicas=2)
        rows, then = self.describe("rows")
        self.assertEqual(rows, {2: hosts, 1: []})
        self.assertEqual(then, {host: 1 for host in hosts})
        whole, kept = self.describe("whole")
        self.assertEqual((whole, set(kept.values())), ({1: []}, {1}))
        print(self.remeshctl("jobs", "describe", "rows"), flush=True)

        self.lose("host-1", "rows", "whole")
        left = [host for host in hosts if host != "host-1"]
        rows, then_again = self.describe("rows")
        self.assertEqual(rows[2], [], "lost already")
        self.assertEqual(self.world("rows", left, self.restore), then["host-1"])
        self.assertEqual(self.world("whole", left, self.restore), kept["host-1"])
        print(then_again, flush=True)

        rows, then = self.describe("rows")
        self.assertEqual(then["host-2"], None)
        self.assertIn("host-2", rows[1])
        self.lose("host-2", "rows")
        with self.assertRaises(job.NotCovered):
            self.world("rows", left[:1], self.restore)

    def test_other_forms_and_jobs_without_saves(self):
        hosts = self.cluster.host_names
        self.world("forms", hosts[:2], lambda core: self.save(core, (1,)), replicas=1)
        self.assertEqual(
            self.remeshctl("jobs", "describe", "jobs/forms", "-o", "name"),
            "jobs/forms/states/save.000001.00000001\n",
        )
        self.assertIn("lossCosts:", self.remeshctl("jobs", "describe", "forms", "-o", "yaml"))
        self.world("empty", hosts[:1], lambda core: None)
        self.assertEqual(self.remeshctl("jobs", "describe", "empty"), "")
        for name in ("nothing", "-"):
            with self.assertRaisesRegex(
                AssertionError, "has no states|must be the name of one job"
            ):
                self.remeshctl("jobs", "describe", name)


if __name__ == "__main__":
    unittest.main()
