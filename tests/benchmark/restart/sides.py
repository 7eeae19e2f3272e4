# SPDX-License-Identifier: Apache-2.0
"""The frameworks whose saves and restores are measured, and the ways of each."""

import dataclasses

from report import ROOT


@dataclasses.dataclass(frozen=True)
class Side:
    """A framework, and the ways to save that are measured, remesh's first."""

    name: str
    title: str
    venv: str
    ways: tuple
    settings: dict

    @property
    def restores(self):
        """Ways that are restored: how they were saved makes no difference to a restore."""
        return tuple(way for way in self.ways if way != "remesh cold" and not way.endswith("async"))

    def python(self):
        return ROOT / "build" / self.venv / "bin" / "python"


COLD = {"remesh cold": {"reserve": False}}
SIDES = [
    Side(
        "jax",
        "JAX",
        "venv",
        ("remesh", "remesh cold", "orbax tmpfs", "orbax tmpfs async", "orbax disk"),
        COLD,
    ),
    Side(
        "torch",
        "PyTorch",
        "venv",
        ("remesh", "remesh cold", "dcp tmpfs", "dcp tmpfs async", "dcp disk"),
        COLD,
    ),
]
