# SPDX-License-Identifier: Apache-2.0
"""remesh for training jobs: plain Python over gRPC, mmap and NumPy.

    remesh.connect    the way in: states, moves, workers (client.py, state.py, move.py, worker.py)
    remesh.layout     how arrays lie on devices
    remesh.buffers    maps and writes the memory that a worker shares
    remesh.errors     what calls raise
    remesh.coordination  what all processes agree on: JAX's multihost_utils, exact
    remesh.group      a world of processes, and how they agree; server_group.py: by the server
    remesh.jax        Job: a JAX job that outlives its processes
    remesh.job        the same for any framework; storage and names: who stores which box, and what
                      saves are called
    remesh.launch     remesh launch: a program in several processes, again after a death
    remesh.testing    LocalCluster: a server and workers on this machine
    remesh.trainer    Trainer: the same for one host in one class, with lend()
    remesh.elements   element types, mapped to NumPy's
    remesh.oracle     the expected value of every element of a test array
    remesh.v1         the generated messages and stubs (from proto/remesh/v1)

docs/python.md describes it. Log lines go to logging.getLogger("remesh").
"""

import os

# Before grpc is imported: otherwise each fork(), such as a DataLoader's, prints a line about
# handlers that gRPC skips.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

# pylint: disable=wrong-import-position
from remesh import buffers, errors, group, layout  # noqa: E402
from remesh.client import Client, connect  # noqa: E402
from remesh.layout import Array, Box  # noqa: E402
from remesh.state import State  # noqa: E402
from remesh.version import VERSION as __version__  # noqa: E402

__all__ = [
    "Array",
    "Box",
    "Client",
    "State",
    "__version__",
    "buffers",
    "connect",
    "errors",
    "group",
    "layout",
]
