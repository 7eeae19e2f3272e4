# SPDX-License-Identifier: Apache-2.0
"""What a worker says of its host."""

import dataclasses
from typing import Tuple

from remesh.v1 import local_pb2


@dataclasses.dataclass(frozen=True)
class Device:
    """A device of a host."""

    id: int  # in the workers' own numbering
    index: int  # on the host
    kind: str  # "host": no accelerator; "cuda"
    memory_bytes: int  # that buffers may use; 0: the worker sets no limit


@dataclasses.dataclass(frozen=True)
class Host:
    """This machine, as its worker sees it."""

    name: str
    cluster_uid: str
    devices: Tuple[Device, ...]
    server: str  # HOST:PORT; "" if the worker does not say
    tls_server_name: str
    attached: bool  # to the server, when the worker answered

    @staticmethod
    def of(message: local_pb2.GetHostResponse) -> "Host":
        """The value of a message."""
        devices = tuple(
            Device(each.id, each.index, each.kind, each.memory_bytes) for each in message.devices
        )
        return Host(
            message.host,
            message.cluster_uid,
            devices,
            message.server_address,
            message.tls_server_name,
            message.attached,
        )

    @property
    def device_ids(self) -> Tuple[int, ...]:
        """Ids of the devices, in local order."""
        return tuple(device.id for device in self.devices)
