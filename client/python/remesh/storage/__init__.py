# SPDX-License-Identifier: Apache-2.0
"""Who stores which box of a job's arrays: pure functions of what each process holds.

    stored()   for a save: each distinct box on `replicas` of the hosts that hold it
    wanted()   for a restore: on every host each box that one of its processes needs, once

Both put a host's boxes on its worker's devices by the same rule, which looks only at the set of
boxes. So where a host wants what it stores, the two layouts are equal and a restore moves nothing.

boxes.py describes arrays, assign.py chooses the hosts, form.py writes the result as shardings.
"""

from remesh.storage.assign import Layout, stored, wanted
from remesh.storage.boxes import Array, Holders, Host
from remesh.storage.form import LayoutTooLarge, spec, targets

__all__ = [
    "Array",
    "Holders",
    "Host",
    "Layout",
    "LayoutTooLarge",
    "spec",
    "stored",
    "targets",
    "wanted",
]
