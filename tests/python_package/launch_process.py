# SPDX-License-Identifier: Apache-2.0
"""A rank of launch_test.py: launch_process.py STEPS PAUSE. The model of leaving_process.py."""

import os
import sys

import leaving_process

if __name__ == "__main__":
    order = {
        "coordinator": os.environ["REMESH_COORDINATOR"],
        "size": int(os.environ["REMESH_WORLD_SIZE"]),
        "steps": int(sys.argv[1]),
        "pause": float(sys.argv[2]),
    }
    leaving_process.main("jax", order, int(os.environ["REMESH_RANK"]))
