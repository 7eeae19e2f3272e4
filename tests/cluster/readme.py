# SPDX-License-Identifier: Apache-2.0
"""What tests take from the chart's README."""

import re

# What brings the image to the nodes: the cluster's tests have it there, and need no registry.
IMAGE = re.compile(r"scripts/build && sudo scripts/image\b|docker (load|tag|push) ")


def install_commands(readme: str) -> str:
    """The commands that install the chart, without those that build the image and push it."""
    block = re.search(r"^```\n(scripts/build .*?)^```$", readme, re.MULTILINE | re.DOTALL)[1]
    image, begin, rest = block.partition("cat > values.yaml")
    others = [line for line in image.splitlines() if not IMAGE.match(line)]
    assert begin and not others, others
    return begin + rest
