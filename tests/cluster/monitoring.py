# SPDX-License-Identifier: Apache-2.0
"""Plays the Prometheus operator: Debian's Prometheus scrapes and judges as the release's PodMonitor
and PrometheusRule say, read from the API server."""

import json
import re
import threading
import time
import urllib.parse
import urllib.request

from machine import wait_for

ADDRESS = "127.0.0.1:9090"
UNITS = {"s": 1, "m": 60, "h": 3600}
# One system's proxy settings are nothing to these namespaces.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _snake(key: str) -> str:
    return re.sub("[A-Z]", lambda found: "_" + found[0].lower(), key)


def _shortened(groups: list, divisor: int) -> list:
    """The groups with each `for:` divided, so that a test need not wait for ten minutes; judged
    every five seconds."""
    for group in groups:
        group["interval"] = "5s"
        for rule in group["rules"]:
            if "for" in rule:
                amount, unit = re.fullmatch(r"(\d+)([smh])", rule["for"]).groups()
                rule["for"] = f"{int(amount) * UNITS[unit] * 1000 // divisor}ms"
    return groups


class Prometheus:
    """Runs once it is made, until the cluster ends."""

    def __init__(self, cluster, space: str, divisor: int):
        self._cluster, self._space, self._folder = cluster, space, cluster.root / "prometheus"
        self._folder.mkdir()
        (self._monitor,) = cluster.get("podmonitors.monitoring.coreos.com", "--namespace", space)[
            "items"
        ]
        (rules,) = cluster.get("prometheusrules.monitoring.coreos.com", "--namespace", space)[
            "items"
        ]
        self._groups = _shortened(rules["spec"]["groups"], divisor)
        (self._folder / "rules.yml").write_text(json.dumps({"groups": self._groups}))
        (self._folder / "prometheus.yml").write_text(
            json.dumps(
                {
                    "rule_files": ["rules.yml"],
                    "scrape_configs": [self._scrape(*self._monitor["spec"]["podMetricsEndpoints"])],
                }
            )
        )
        self._write_targets()
        self.began = time.time()
        cluster.start(
            "prometheus",
            "prometheus",
            f"--config.file={self._folder}/prometheus.yml",
            f"--storage.tsdb.path={self._folder}/data",
            f"--web.listen-address={ADDRESS}",
            "--log.level=warn",
        )
        threading.Thread(target=self._keep_targets, daemon=True).start()
        wait_for(
            "Prometheus", lambda: OPENER.open(f"http://{ADDRESS}/-/ready", timeout=2).status == 200
        )

    def alerts(self) -> int:
        """How many the rules have."""
        return sum("alert" in rule for group in self._groups for rule in group["rules"])

    # ---- questions ----

    def _ask(self, path: str, **arguments) -> dict:
        with OPENER.open(
            f"http://{ADDRESS}/api/v1/{path}?{urllib.parse.urlencode(arguments)}", timeout=30
        ) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list:
        return self._ask("query", query=expression)["result"]

    def has_shown(self, expression: str) -> bool:
        """Whether a panel over the whole time so far would show something."""
        end = time.time()
        found = self._ask(
            "query_range",
            query=expression,
            start=self.began,
            end=end,
            step=max(5, (end - self.began) / 500),
        )["result"]
        return any(value != "NaN" for series in found for _, value in series["values"])

    def firing(self, alert: str) -> list:
        return [
            found
            for found in self._ask("alerts")["alerts"]
            if found["labels"]["alertname"] == alert and found["state"] == "firing"
        ]

    def wait_firing(self, alert: str, seconds: float = 120) -> str:
        """Its description."""
        return wait_for(f"{alert} fires", lambda: self.firing(alert), seconds, pause=0.5)[0][
            "annotations"
        ]["description"]

    def wait_resolved(self, alert: str, seconds: float = 120) -> None:
        wait_for(f"{alert} is resolved", lambda: not self.firing(alert), seconds, pause=0.5)

    # ---- what the operator would write ----

    def _scrape(self, endpoint: dict) -> dict:
        """Debian's Prometheus does not know Kubernetes: its labels of a pod come by file, the
        PodMonitor's own relabelings are done by Prometheus."""
        own = [
            {"source_labels": [f"__meta_kubernetes_pod_{name}"], "target_label": label}
            for name, label in (("name", "pod"), ("container_name", "container"))
        ]
        own.append({"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"})
        return {
            "job_name": f"{self._space}/{self._monitor['metadata']['name']}",
            "scrape_interval": endpoint["interval"],
            "scrape_timeout": endpoint["interval"],
            "file_sd_configs": [
                {"files": [str(self._folder / "targets.json")], "refresh_interval": "1s"}
            ],
            "relabel_configs": own
            + [
                {_snake(key): value for key, value in relabeling.items()}
                for relabeling in endpoint["relabelings"]
            ],
        }

    def _keep_targets(self) -> None:
        while True:
            time.sleep(1)
            try:
                self._write_targets()
            except (OSError, RuntimeError, ValueError, KeyError):
                pass  # of a pod that goes at this moment; the next second tells

    def _write_targets(self) -> None:
        (endpoint,) = self._monitor["spec"]["podMetricsEndpoints"]
        selector = ",".join(
            f"{key}={value}"
            for key, value in self._monitor["spec"]["selector"]["matchLabels"].items()
        )
        targets = [
            target
            for pod in self._cluster.ask(
                f"/api/v1/namespaces/{self._space}/pods", labelSelector=selector
            )["items"]
            for target in _targets(pod, endpoint["port"])
        ]
        text, file = json.dumps(targets), self._folder / "targets.json"
        if file.exists() and file.read_text() == text:
            return  # Prometheus looks at every file that changes
        new = self._folder / "targets.new"
        new.write_text(text)
        new.rename(file)


def _targets(pod: dict, port_name: str) -> list:
    """As the operator's discovery finds a pod's ports."""
    status, meta = pod["status"], pod["metadata"]
    if not status.get("podIP") or status["phase"] in ("Failed", "Succeeded"):
        return []
    labels = {
        "__meta_kubernetes_namespace": meta["namespace"],
        "__meta_kubernetes_pod_name": meta["name"],
        "__meta_kubernetes_pod_node_name": pod["spec"]["nodeName"],
    }
    labels.update(
        {
            "__meta_kubernetes_pod_label_" + re.sub(r"\W", "_", key): value
            for key, value in meta["labels"].items()
        }
    )
    return [
        {
            "targets": [f"{status['podIP']}:{port['containerPort']}"],
            "labels": {**labels, "__meta_kubernetes_pod_container_name": container["name"]},
        }
        for container in pod["spec"]["containers"]
        for port in container.get("ports", [])
        if port.get("name") == port_name
    ]
