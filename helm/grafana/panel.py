# SPDX-License-Identifier: Apache-2.0
"""A panel of a board, as a value."""

import dataclasses

# Colours, each from its value on. The same values as those of alerts, where there is one.
ANY_IS_BAD = (("green", None), ("red", 1))
ANY_IS_ODD = (("green", None), ("orange", 1))
ALL_IS_GOOD = (("red", None), ("green", 1))


@dataclasses.dataclass(frozen=True)
class Panel:
    """A query, or (legend, query) pairs. CHOSEN in a query stands for the labels that the board's
    variables choose."""

    title: str
    words: str
    unit: str
    query: str | tuple
    legend: str = ""
    kind: str = "timeseries"  # or stat, state-timeline, table
    width: int = 0  # in columns; 0: as its kind
    levels: tuple = ()  # what is good and what is bad; empty: neither
    scale: tuple = ()  # on which an objective can be seen: it widens where values are outside


def stat(title, words, unit, query, legend="", levels=()):
    return Panel(title, words, unit, query, legend, "stat", levels=levels)
