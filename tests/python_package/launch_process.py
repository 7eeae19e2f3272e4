# SPDX-License-Identifier: Apache-2.0
"""A rank of launch_test.py: launch_process.py KIND STEPS PAUSE. The model of leaving_process.py."""

import os
import sys

import leaving_process

if __name__ == "__main__":
    order = {
        "coordinator": os.environ["REMESH_COORDINATOR"],
        "store": f"tcp://{os.environ['REMESH_COORDINATOR']}",
        "size": int(os.environ["REMESH_WORLD_SIZE"]),
        "away": 120.0,
        "steps": int(sys.argv[2]),
        "pause": float(sys.argv[3]),
    }
    leaving_process.main(sys.argv[1], order, int(os.environ["REMESH_RANK"]))
