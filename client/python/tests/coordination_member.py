# SPDX-License-Identifier: Apache-2.0
"""A process of coordination_world_test.py: joins the world of its launcher and says so. Then it does
what each line of its input asks."""

import json
import os
import sys

from remesh import coordination


def main() -> None:
    """See the module's comment."""
    group = coordination.join("together", deadline=float(sys.argv[1]))
    print(json.dumps({"pid": os.getpid(), "rank": group.rank, "size": group.size}), flush=True)
    for line in sys.stdin:
        if line == "gather\n":
            found = coordination.process_allgather({"rank": group.rank})["rank"].tolist()
            print(json.dumps({"found": found}), flush=True)


if __name__ == "__main__":
    main()
