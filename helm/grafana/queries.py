# SPDX-License-Identifier: Apache-2.0
"""Texts of queries that many panels have. CHOSEN stands for the labels that the board's variables
choose."""

CHOSEN = 'namespace=~"$namespace",job=~"$job",instance=~"$instance"'


def chosen(query: str) -> str:
    """The query as Grafana takes it."""
    return query.replace("CHOSEN", CHOSEN)


def quantile(part: float, series: str, by: str = "", labels: str = "") -> str:
    groups = f"{by}, le" if by else "le"
    buckets = f"rate({series}_bucket{{CHOSEN{labels}}}[$__rate_interval])"
    return f"histogram_quantile({part}, sum by ({groups}) ({buckets}))"


def rate(series: str, by: str = "", labels: str = "", over: str = "$__rate_interval") -> str:
    function = "increase" if over == "$__range" else "rate"
    groups = f" by ({by})" if by else ""
    return f"sum{groups} ({function}({series}{{CHOSEN{labels}}}[{over}]))"


def ratio(part: str, whole: str) -> str:
    """Nothing where the whole is 0."""
    return f"{part} / ({whole} > 0)"
