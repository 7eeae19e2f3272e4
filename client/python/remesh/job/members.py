# SPDX-License-Identifier: Apache-2.0
"""The processes of a world, and the hosts that they run on."""

import dataclasses
import json
from typing import Dict, List, Sequence, Tuple

from remesh import errors
from remesh.storage import Host


@dataclasses.dataclass(frozen=True)
class Members:
    """hosts: in the order of their first process. host_of: index into hosts of each process."""

    hosts: Tuple[Host, ...]
    host_of: Tuple[int, ...]

    @staticmethod
    def of(lines: Sequence[bytes]) -> "Members":
        """From introduction() of each process. BadArgument if they are on different clusters."""
        introduced = [json.loads(line) for line in lines]
        clusters = {each["cluster_uid"] for each in introduced}
        if len(clusters) > 1:
            raise errors.BadArgument(
                f"cluster_uid: processes are on the clusters {', '.join(sorted(clusters))}; must "
                "be one"
            )
        hosts: Dict[str, Host] = {}
        for each in introduced:
            hosts.setdefault(
                each["host"], Host(each["host"], tuple(each["devices"]), each["has_gpus"])
            )
        names = list(hosts)
        return Members(
            tuple(hosts.values()), tuple(names.index(each["host"]) for each in introduced)
        )

    def to_json(self) -> Dict:
        """For from_json() on the other processes."""
        return {
            "hosts": [[host.name, host.devices, host.has_gpus] for host in self.hosts],
            "host_of": self.host_of,
        }

    @staticmethod
    def from_json(fields: Dict) -> "Members":
        """See to_json()."""
        hosts = tuple(
            Host(name, tuple(devices), has_gpus) for name, devices, has_gpus in fields["hosts"]
        )
        return Members(hosts, tuple(fields["host_of"]))

    def leads(self, process: int) -> bool:
        """Whether the process is the first of its host: it seals for the others."""
        return self.leader(self.host_of[process]) == process

    def leader(self, host: int) -> int:
        """The host's first process."""
        return self.host_of.index(host)

    def neighbours(self, process: int) -> List[int]:
        """The process, and the first process of the next host if there is another."""
        if len(self.hosts) == 1:
            return [process]
        return [process, self.leader((self.host_of[process] + 1) % len(self.hosts))]


def introduction(host) -> bytes:
    """What a process tells of its host (Client.host). WorkerTooOld if the worker cannot say it;
    HostAway if it has no device ids yet."""
    if not host.name:
        raise errors.WorkerTooOld(
            "the host's worker does not know GetHost: replace it by a newer version"
        )
    for device in host.devices:
        if device.id < 0:
            raise errors.HostAway(
                f"{host.name}: device {device.index} has no id yet, as the worker is not attached "
                "to a server that assigns them",
                metadata={"host": host.name},
            )
    devices = [device.id for device in host.devices]
    has_gpus = any(device.kind != "host" for device in host.devices)
    return json.dumps(
        {
            "host": host.name,
            "cluster_uid": host.cluster_uid,
            "devices": devices,
            "has_gpus": has_gpus,
        }
    ).encode()
