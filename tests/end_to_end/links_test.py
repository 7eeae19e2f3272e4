# SPDX-License-Identifier: Apache-2.0
"""One move over several links: hosts 0 and 2 have GPUs, simulated or true, and exchange by NCCL,
host 1 has none and is reached by TCP."""

import re
import unittest
import urllib.request

from remesh.v1 import state_pb2

from harness import CALL_SECONDS, DEVICE, Array, ClusterTest, targets, text_sharding

PER_HOST = 1 if DEVICE == "mixed_cuda" else 2  # devices: a machine may have one GPU


def rows(*ids: int):
    return text_sharding(f"{{devices=[{len(ids)},1]<=[{len(ids)}]}}", *ids)


def columns(*ids: int):
    return text_sharding(f"{{devices=[1,{len(ids)}]<=[{len(ids)}]}}", *ids)


ALL = range(3 * PER_HOST)
ROWS, COLUMNS = rows(*ALL), columns(*reversed(ALL))
ON_GPUS, PARKED = rows(*ALL[:PER_HOST], *ALL[-PER_HOST:]), columns(*ALL[PER_HOST:-PER_HOST])
ARRAYS = [Array("w", "f32", (96, 48)), Array("b", "bf16", (24, 12)), Array("n", "s4", (13, 7))]


@unittest.skipUnless(DEVICE.startswith("mixed"), "all hosts have the same link")
class LinksTest(ClusterTest):
    DEVICES_PER_HOST = PER_HOST

    def _series(self, host: str, name: str, **labels) -> float:
        with urllib.request.urlopen(
            self.cluster.worker_metrics_url(host), timeout=CALL_SECONDS
        ) as page:
            text = page.read().decode()
        inside = ",".join(f'{label}="{value}"' for label, value in labels.items())
        found = re.search(rf"^{name}{{{re.escape(inside)}}} (\S+)$", text, re.M)
        return float(found[1]) if found else 0.0

    def _sent(self):
        """Bytes that each host has sent: (by NCCL, by TCP)."""
        return {
            host: tuple(
                self._series(
                    host, "remesh_worker_transfer_bytes_total", direction="sent", transport=link
                )
                for link in ("nccl", "tcp")
            )
            for host in self.cluster.host_names
        }

    def _create(self, what: str, arrays, sharding, hosts=None) -> str:
        name = f"jobs/mixed/states/{what}"
        self.create_and_write(name, arrays, sharding, hosts)
        return name

    def _delete(self, name: str) -> None:
        self.controller.states.DeleteState(
            state_pb2.DeleteStateRequest(name=name), timeout=CALL_SECONDS
        )

    def test_one_move_uses_both_links(self):
        name, before = self._create("both", ARRAYS, ROWS), self._sent()
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        self.check_everywhere(name, 2, ARRAYS)
        sent = {
            host: [now - then for now, then in zip(both, before[host])]
            for host, both in self._sent().items()
        }
        for host in ("host-0", "host-2"):
            self.assertGreater(sent[host][0], 0, f"{host} sends to the other GPUs by NCCL")
            self.assertGreater(sent[host][1], 0, f"{host} sends to host-1 by TCP")
        self.assertEqual(sent["host-1"][0], 0)
        self.assertGreater(sent["host-1"][1], 0)
        self._delete(name)

    def test_the_gpus_reuse_their_communicators(self):
        name = self._create("reuse", ARRAYS, ROWS)
        self.move(name, 1, targets(ARRAYS, COLUMNS))
        count = lambda: [
            self._series(host, "remesh_worker_nccl_communicators_total", outcome="reused")
            for host in ("host-0", "host-2")
        ]
        before = count()
        self.move(name, 2, targets(ARRAYS, ROWS))
        self.assertEqual(count(), [reused + 1 for reused in before])
        self.check_everywhere(name, 3, ARRAYS)
        self._delete(name)

    def test_a_state_leaves_the_gpus_and_comes_back(self):
        """All of it waits in the memory of a host without GPUs in the meantime."""
        name = self._create("parked", ARRAYS, ON_GPUS, ["host-0", "host-2"])
        self.move(name, 1, targets(ARRAYS, PARKED))
        self.check_everywhere(name, 2, ARRAYS, ["host-1"])
        self.move(name, 2, targets(ARRAYS, ON_GPUS))
        self.check_everywhere(name, 3, ARRAYS, ["host-0", "host-2"])
        self._delete(name)


if __name__ == "__main__":
    unittest.main()
