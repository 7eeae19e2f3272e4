# SPDX-License-Identifier: Apache-2.0
"""The planner's cases on hosts of 1 to 72 devices: how long schedules take beside what their
busiest link needs."""

import sys

from suite_planner import TARGETS, hosts_lines, measure_hosts  # pylint: disable=unused-import

TITLE = "Planner on hosts of any size"


def measure(build, arguments):
    if arguments:
        sys.exit("scripts/bench hosts takes no further arguments")
    return hosts_lines(measure_hosts(build / "bin" / "planner-bench"))[:-1]
