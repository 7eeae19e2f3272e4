# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus beside a test's cluster."""

import json
import pathlib
import re
import urllib.parse
import urllib.request
from typing import List

from remesh.testing import Process

from harness import CALL_SECONDS, ClusterTest

SCRAPE_SECONDS = 1
# One system's proxy settings are nothing to loopback.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def fetch(url: str) -> str:
    with OPENER.open(url, timeout=CALL_SECONDS) as answer:
        return answer.read().decode()


def query(prometheus: str, promql: str) -> List[dict]:
    """The result of an instant query: a list of {"metric": labels, "value": [time, text]}."""
    answer = json.loads(
        fetch(f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': promql})}")
    )
    assert answer["status"] == "success", answer
    return answer["data"]["result"]


def start_prometheus(test: ClusterTest, root: pathlib.Path, scrape_configs: List[dict]) -> str:
    """On a free port, until the test ends. Returns its URL once it is ready."""
    root.mkdir()
    config = root / "prometheus.yml"
    config.write_text(
        json.dumps(
            {"global": {"scrape_interval": f"{SCRAPE_SECONDS}s"}, "scrape_configs": scrape_configs}
        )
    )
    process = Process(
        "prometheus",
        [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={root / 'data'}",
            "--web.listen-address=127.0.0.1:0",
        ],
        root / "log",
    )
    test.addCleanup(process.stop)

    def address():
        test.assertTrue(
            process.alive(), f"install Debian's package prometheus: {process.log_tail()}"
        )
        return re.search(r'msg="Listening on" address=(\S+)', process.log.read_text())

    url = f"http://{test.wait_until('Prometheus listens', address)[1]}"

    def ready():
        try:
            return "Ready" in fetch(f"{url}/-/ready")
        except OSError:
            return False

    test.wait_until("Prometheus is ready", ready)
    return url
