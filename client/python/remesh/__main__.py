# SPDX-License-Identifier: Apache-2.0
"""The command `remesh`, or `python -m remesh`: remesh launch."""

import sys

from remesh import launch

_USAGE = "usage: remesh launch -n SIZE [options] -- COMMAND..., or remesh launch --help"


def main() -> int:
    """Returns the exit status."""
    if sys.argv[1:2] == ["launch"]:
        return launch.main(sys.argv[2:])
    asked = sys.argv[1:2] in (["-h"], ["--help"])
    print(_USAGE, file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


if __name__ == "__main__":
    sys.exit(main())
