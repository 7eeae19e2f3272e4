# SPDX-License-Identifier: Apache-2.0
"""The chart: what it renders is what Kubernetes takes, with no more rights than it needs."""

import json
import tempfile
import unittest

import yaml

from chart import (
    CASES,
    VERSIONS,
    containers,
    kubernetes_faults,
    main,
    of_kind,
    only,
    pods,
    rendered,
)
from support import CHART, TOOLS, run

OTHERS = {
    "monitoring.coreos.com/v1",
    "cert-manager.io/v1",
}  # objects that are not Kubernetes' own; scripts/test-cluster shows them to a real API server
# What the files of ci/ name and somebody else makes.
GIVEN = {"our-tokens", "server-tls", "worker-tls", "viewer-tls", "remesh-cas"}


class RenderTest(unittest.TestCase):
    def each(self) -> list:
        return [rendered(case) for case in CASES]

    def test_helm_lints_it(self):
        for case, path in CASES.items():
            with self.subTest(case=case):
                check = run(
                    TOOLS / "helm",
                    "lint",
                    "--strict",
                    "--quiet",
                    CHART,
                    *(["--values", path] if path else []),
                )
                self.assertEqual(check.returncode, 0, check.stdout + check.stderr)

    def test_kubernetes_takes_it(self):
        for case in CASES:
            for version in VERSIONS:
                for document in rendered(case, version):
                    if document["apiVersion"] in OTHERS:
                        continue
                    with self.subTest(
                        case=case,
                        version=version,
                        kind=document["kind"],
                        name=document["metadata"]["name"],
                    ):
                        self.assertEqual(kubernetes_faults(document, version), [])

    def test_faults_are_found(self):
        claim = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "a"},
            "spec": {"port": [], "ports": [{"port": "x"}]},
        }
        self.assertEqual(len(kubernetes_faults(claim, "1.34")), 2)

    def test_names_are_unique_and_short(self):
        for documents in self.each():
            names = [(document["kind"], document["metadata"]["name"]) for document in documents]
            self.assertEqual(len(names), len(set(names)))
            for _, name in names:
                self.assertLessEqual(len(name), 63)

    def test_selectors_find_their_pods(self):
        for documents in self.each():
            every = [labels for _, labels, _ in pods(documents)]
            for document in documents:
                if document["kind"] in ("StatefulSet", "DaemonSet"):
                    own = document["spec"]["template"]["metadata"]["labels"]
                    self.assertLessEqual(
                        document["spec"]["selector"]["matchLabels"].items(), own.items()
                    )
                selector = {
                    "Service": lambda d: d["spec"]["selector"],
                    "PodDisruptionBudget": lambda d: d["spec"]["selector"]["matchLabels"],
                    "NetworkPolicy": lambda d: d["spec"]["podSelector"]["matchLabels"],
                    "PodMonitor": lambda d: d["spec"]["selector"]["matchLabels"],
                }.get(document["kind"])
                if selector:
                    self.assertTrue(
                        any(selector(document).items() <= labels.items() for labels in every),
                        document["metadata"]["name"],
                    )

    def test_mounts_and_ports_and_references_lead_somewhere(self):
        for documents in self.each():
            made = {(document["kind"], document["metadata"]["name"]) for document in documents}
            made |= {
                ("Secret", document["spec"]["secretName"])
                for document in of_kind(documents, "Certificate")
            }
            made |= {(kind, name) for kind in ("Secret", "ConfigMap") for name in GIVEN}
            for _, _, spec in pods(documents):
                volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
                claims = {"journal"} if "journal" in str(documents) else set()
                for container in containers(spec):
                    for mount in container.get("volumeMounts", []):
                        self.assertIn(mount["name"], volumes.keys() | claims)
                    ports = {port["name"] for port in container.get("ports", [])}
                    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                        if probe in container:
                            self.assertIn(container[probe]["httpGet"]["port"], ports)
                for volume in volumes.values():
                    for source in volume.get("projected", {}).get("sources", []):
                        for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
                            if field in source:
                                self.assertIn((kind, source[field]["name"]), made)

    def test_no_container_has_more_rights_than_it_needs(self):
        added = {"folders": {"CHOWN", "FOWNER", "DAC_OVERRIDE"}}
        for case in CASES:
            for name, _, spec in pods(rendered(case)):
                self.assertFalse(spec["automountServiceAccountToken"])
                self.assertTrue(spec["securityContext"]["runAsNonRoot"])
                self.assertEqual(
                    spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"}
                )
                self.assertEqual(spec.get("hostPID", False), case == "secrets" and "worker" in name)
                self.assertNotIn("hostIPC", spec)
                for container in containers(spec):
                    rights = container["securityContext"]
                    self.assertFalse(rights["allowPrivilegeEscalation"])
                    self.assertTrue(rights["readOnlyRootFilesystem"])
                    self.assertEqual(rights["capabilities"]["drop"], ["ALL"])
                    rdma = {"IPC_LOCK"} if container["name"] == "worker" else set()
                    self.assertLessEqual(
                        set(rights["capabilities"].get("add", [])),
                        added.get(container["name"], rdma),
                    )
                if not name.endswith(("-worker", "-keeper")):  # Pod Security's level restricted
                    self.assertFalse(spec.get("hostNetwork", False))
                    self.assertFalse(
                        [volume for volume in spec.get("volumes", []) if "hostPath" in volume]
                    )

    def test_only_the_worker_may_change_its_folders(self):
        """Mode 2750, whatever made them: the kubelet, or an earlier version of the chart. A worker
        refuses others."""
        for case in CASES:
            for name, _, spec in pods(rendered(case)):
                if name.endswith(("-worker", "-keeper")):
                    folders = next(
                        container
                        for container in spec["initContainers"]
                        if container["name"] == "folders"
                    )
                    self.assertRegex(
                        folders["command"][-1], r'chown 65532:\d+ "\$folder"; chmod 2750 "\$folder"'
                    )
                    mounts = {mount["mountPath"] for mount in folders["volumeMounts"]}
                    self.assertLessEqual(
                        mounts, set(folders["command"][-1].replace(";", " ").split())
                    )
                    for volume in spec["volumes"]:  # fsGroup would make these writable to the group
                        if volume["name"] in ("buffers", "socket"):
                            self.assertIn("hostPath", volume)

    def test_the_operators_objects_are_as_prometheus_takes_them(self):
        documents = rendered("full")
        rule = only(documents, "PrometheusRule")
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(rule["spec"], file)
            file.flush()
            check = run("promtool", "check", "rules", file.name)
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)
        urls = {
            alert["annotations"]["runbook_url"]
            for group in rule["spec"]["groups"]
            for alert in group["rules"]
            if "alert" in alert
        }
        self.assertIn("https://example.com/remesh/docs/runbooks/RemeshServerDown.md", urls)
        (endpoint,) = only(documents, "PodMonitor")["spec"]["podMetricsEndpoints"]
        ports = [
            port["name"]
            for _, _, spec in pods(documents)
            for container in containers(spec)
            for port in container.get("ports", [])
        ]
        self.assertEqual(ports.count(endpoint["port"]), 2)
        for kind in ("PrometheusRule", "PodMonitor"):
            self.assertEqual(only(documents, kind)["metadata"]["labels"]["release"], "stack")

    def test_boards_arrive_whole(self):
        maps = [
            document
            for document in of_kind(rendered("full"), "ConfigMap")
            if "grafana_dashboard"
            in document["metadata"]["labels" if document["metadata"].get("labels") else "name"]
        ]
        found = {name: json.loads(text) for board in maps for name, text in board["data"].items()}
        self.assertEqual(
            found,
            {
                path.name: json.loads(path.read_text())
                for path in (CHART / "files" / "dashboards").glob("*.json")
            },
        )


if __name__ == "__main__":
    main()
