# SPDX-License-Identifier: Apache-2.0
"""What make_data.py writes and upgrade_test.py looks for. Archives of older versions hold the same:
change nothing here, add."""

import os
import pathlib

HOSTS, DEVICES, BYTES = 2, 4, 8 << 20
MOVED, UNSEALED = "jobs/upgrade/states/moved", "jobs/upgrade/states/unsealed"
SEALED, DELETED = "jobs/upgrade/states/sealed", "jobs/upgrade/states/deleted"
ONCE, ONCE_STEP = "jobs/upgrade/states/once", 7  # written once, with the step that UpdateState set
ROWS, COLUMNS = "{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}"
ARRAYS = (("weight", "f32", (96, 64)), ("step", "u64", (8, 4)))  # name, element type, shape


def bin_dir() -> pathlib.Path:
    return pathlib.Path(os.environ["REMESH_BIN_DIR"])


def folders(cluster, state: str) -> list:
    """Hosts that have a folder for buffers of the state."""
    name = state.replace("/", "%2F")
    return [host for host in cluster.host_names if (cluster.buffers / host / name).exists()]
