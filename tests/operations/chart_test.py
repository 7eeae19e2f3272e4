# SPDX-License-Identifier: Apache-2.0
"""The chart: what it renders is what Kubernetes takes, what the binaries take, and what was asked
for."""

import base64
import functools
import json
import pathlib
import re
import tempfile
import unittest

import jsonschema
import yaml

import support
from option_table import example_keys, options_of
from support import CHART, ROOT, TOOLS, binary, run

CASES = {
    "defaults": None,
    **{path.stem.removesuffix("-values"): path for path in sorted((CHART / "ci").glob("*.yaml"))},
}
VERSIONS = ["1.27", "1.34", "1.37"]
OTHERS = {
    "monitoring.coreos.com/v1",
    "cert-manager.io/v1",
}  # objects that are not Kubernetes' own; scripts/test-cluster shows them to a real API server
# What the files of ci/ name and somebody else makes.
GIVEN = {"our-tokens", "server-tls", "worker-tls", "viewer-tls", "remesh-cas"}
NODES = ("--set", "worker.nodes.a=0", "--set", "worker.nodes.b=8")


def template(*arguments, version: str = "1.34"):
    return run(
        TOOLS / "helm",
        "template",
        "release",
        CHART,
        "--namespace",
        "space",
        "--kube-version",
        f"{version}.0",
        *arguments,
    )


@functools.lru_cache(maxsize=None)
def rendered(case: str, version: str = "1.34", *arguments) -> list:
    values = ["--values", CASES[case]] if CASES[case] else []
    result = template(*values, *arguments, version=version)
    assert result.returncode == 0, result.stderr
    return [document for document in yaml.safe_load_all(result.stdout) if document]


def of_kind(documents: list, kind: str, name: str = "") -> list:
    return [
        document
        for document in documents
        if document["kind"] == kind and document["metadata"]["name"].endswith(name)
    ]


def only(documents: list, kind: str, name: str = ""):
    (found,) = of_kind(documents, kind, name)
    return found


def pods(documents: list) -> list:
    """(name, labels, spec) of every pod that the objects make."""
    result = []
    for document in documents:
        if document["kind"] == "Pod":
            result.append(
                (document["metadata"]["name"], document["metadata"]["labels"], document["spec"])
            )
        elif document["kind"] in ("StatefulSet", "DaemonSet"):
            template_of = document["spec"]["template"]
            result.append(
                (
                    document["metadata"]["name"],
                    template_of["metadata"]["labels"],
                    template_of["spec"],
                )
            )
    return result


def containers(spec: dict) -> list:
    return [*spec.get("initContainers", []), *spec["containers"]]


@functools.lru_cache(maxsize=None)
def schemas(version: str) -> dict:
    return json.loads((TOOLS / f"kubernetes-{version}.json").read_text())["$defs"]


def kubernetes_faults(document: dict, version: str) -> list:
    """What Kubernetes' own schema, without unknown fields, has against an object."""
    group, _, api = document["apiVersion"].rpartition("/")
    (name,) = [
        name
        for name in schemas(version)
        if name.endswith(f".{group.split('.')[0] or 'core'}.{api}.{document['kind']}")
    ]
    checker = jsonschema.Draft202012Validator(
        {"$defs": schemas(version), "$ref": f"#/$defs/{name}"}
    )
    return [
        f"{'/'.join(map(str, error.absolute_path))}: {error.message}"
        for error in checker.iter_errors(document)
    ]


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

    def test_nobody_but_the_worker_may_change_its_folders(self):
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


class ConfigurationTest(unittest.TestCase):
    """server.yaml and the workers' files."""

    def files(self, case: str):
        """(binary, text, flags) of every file that a pod would read."""
        documents = rendered(case)
        yield "server", only(documents, "ConfigMap", "-server")["data"]["server.yaml"], []
        for worker in of_kind(documents, "DaemonSet", "-worker"):
            arguments = [
                text.replace("$(POD_IP)", "10.0.0.1").replace("$(NODE_NAME)", "node-1")
                for text in worker["spec"]["template"]["spec"]["containers"][0].get("args", [])
            ]
            for text in only(documents, "ConfigMap", "-worker")["data"].values():
                yield "worker", text, arguments

    def test_keys_are_settings(self):
        for case in CASES:
            for name, text, arguments in self.files(case):
                keys = {option.key for option in options_of(name)}
                self.assertEqual(set(yaml.safe_load(text)) - keys, set())
                for argument in arguments:
                    self.assertIn(argument.split("=")[0].removeprefix("--").replace("-", "_"), keys)

    def test_binaries_take_the_files(self):
        if not (binary("remesh-server") and binary("remesh-worker")):
            self.skipTest("the binaries are not built")
        with tempfile.TemporaryDirectory() as folder:
            for case in CASES:
                for name, text, arguments in self.files(case):
                    with self.subTest(case=case, binary=name):
                        file = pathlib.Path(folder) / "config.yaml"
                        file.write_text(text)
                        check = run(
                            binary(f"remesh-{name}"), "--config", file, *arguments, "--check-config"
                        )
                        self.assertEqual(
                            (check.returncode, check.stdout), (0, "ok\n"), check.stderr
                        )

    def test_what_was_set_arrives(self):
        (server,) = [text for name, text, _ in self.files("full") if name == "server"]
        settings = yaml.safe_load(server)
        self.assertEqual(
            (settings["states_max"], settings["plan_cache_bytes"], settings["heartbeat_interval"]),
            (20000000, 268435456, "500ms"),
        )
        self.assertNotIn("e+", server)  # a number that Helm made a float

    def test_workers_know_host_and_ids(self):
        workers = [yaml.safe_load(text) for name, text, _ in self.files("full") if name == "worker"]
        ids = {worker["host"]: worker["device_ids"] for worker in workers}
        self.assertEqual(
            ids,
            {
                "gpu-a": [*range(8)],
                "ip-10-0-0-7.ec2.internal": [*range(8, 16)],
                "7": [*range(16, 24)],
            },
        )
        self.assertEqual(workers[0]["memory_limit_bytes"], "512GiB")
        spec = only(rendered("full"), "DaemonSet")["spec"]["template"]["spec"]
        self.assertEqual(spec["containers"][0]["resources"]["limits"]["memory"], "514Gi")
        terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        self.assertEqual(
            [term["matchFields"][0]["values"] for term in terms], [[host] for host in sorted(ids)]
        )
        self.assertEqual(
            set(only(rendered("full"), "ConfigMap", "-worker")["data"]),
            {f"{host}.yaml" for host in ids},
        )

    def test_without_named_nodes_every_node_has_a_worker_and_the_server_assigns_ids(self):
        documents = rendered("defaults")
        spec = only(documents, "DaemonSet")["spec"]["template"]["spec"]
        self.assertNotIn("affinity", spec)
        files = only(documents, "ConfigMap", "-worker")["data"]
        self.assertEqual(list(files), ["worker.yaml"])
        settings = yaml.safe_load(files["worker.yaml"])
        self.assertEqual((settings["device_ids"], settings["devices"]), ("auto", 8))
        (worker,) = [container for container in spec["containers"] if container["name"] == "worker"]
        self.assertEqual(
            worker["command"], ["remesh-worker", "--config", "/etc/remesh/worker.yaml"]
        )
        self.assertEqual(
            worker["args"], ["--host=$(NODE_NAME)", "--data-bind-address=$(POD_IP):7080"]
        )
        self.assertNotIn("host", settings)  # each adds its own

    def test_workers_call_the_service(self):
        for case in CASES:
            service = [document for document in of_kind(rendered(case), "Service", "-server")][0]
            address = (
                f'{service["metadata"]["name"]}.space.svc:{service["spec"]["ports"][0]["port"]}'
            )
            for name, text, _ in self.files(case):
                if name == "worker":
                    self.assertEqual(yaml.safe_load(text)["server_address"], address)

    def test_a_node_more_restarts_nobody(self):
        def checksum(*arguments):
            annotations = only(rendered("defaults", "1.34", *arguments), "DaemonSet")["spec"][
                "template"
            ]["metadata"]["annotations"]
            return annotations["checksum/config"]

        self.assertEqual(checksum(*NODES), checksum(*NODES, "--set", "worker.nodes.c=16"))
        self.assertNotEqual(
            checksum(*NODES), checksum(*NODES, "--set", "worker.config.copy_threads=3")
        )

    def test_what_is_read_while_it_runs_restarts_nobody(self):
        for name, template_file in (
            ("server", "server/statefulset.yaml"),
            ("worker", "worker/daemonset.yaml"),
        ):
            example = (ROOT / name / "config.example.yaml").read_text()
            # A row: comment lines, then "# key: value" and an empty line.
            live = {
                key
                for words, key in re.findall(
                    r"((?:^# .*\n)+?)^# (\w+): .*\n(?:\n|\Z)", example, re.M
                )
                if "(Takes effect without a restart.)" in " ".join(words.replace("#", " ").split())
            }
            (line,) = [
                line
                for line in (CHART / "templates" / template_file).read_text().splitlines()
                if "checksum/config" in line
            ]
            self.assertEqual(set(re.findall(r'"(\w+)"', line)), live)

    def test_a_pod_has_longer_to_end_than_it_takes(self):
        seconds = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}

        def value(name: str, settings: dict, key: str) -> float:
            example = (ROOT / name / "config.example.yaml").read_text()
            text = str(settings.get(key, re.search(rf"^# {key}: (.*)$", example, re.M)[1]))
            number, unit = re.fullmatch(r"([0-9.]+) *(ms|s|m|h)?", text).groups()
            return float(number) * seconds[unit or "s"]

        # Beside the settings' own times: what workers get to let go, and what comes after.
        for case in CASES:
            for name, text, _ in self.files(case):
                settings = yaml.safe_load(text)
                keys = (
                    ["drain", "drain_delay", "shutdown_grace", "quiesce_timeout"]
                    if name == "server"
                    else ["drain"]
                )
                needed = sum(value(name, settings, key) for key in keys) + 10
                kind = "StatefulSet" if name == "server" else "DaemonSet"
                given = only(rendered(case), kind, f"-{name}")["spec"]["template"]["spec"][
                    "terminationGracePeriodSeconds"
                ]
                self.assertGreater(given, needed, (case, name))

    def test_the_join_token_is_one_that_the_server_takes(self):
        token = base64.b64decode(only(rendered("defaults"), "Secret")["data"]["tokens"]).decode()
        self.assertTrue(16 <= len(token) <= 1024, token)
        self.assertEqual(of_kind(rendered("full"), "Secret"), [])


class ModesTest(unittest.TestCase):
    """What a value switches on or off, in the worker's pod."""

    def worker(self, *values) -> dict:
        settings = [word for value in values for word in ("--set", value)]
        return only(rendered("defaults", "1.34", *NODES, *settings), "DaemonSet", "-worker")[
            "spec"
        ]["template"]["spec"]

    def test_gpus_without_taking_them_from_the_scheduler(self):
        spec = self.worker("worker.gpu.enabled=true")
        self.assertEqual(spec["runtimeClassName"], "nvidia")
        self.assertIn(
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, spec["containers"][0]["env"]
        )
        self.assertNotIn("nvidia.com/gpu", str(spec["containers"][0]["resources"]))
        self.assertNotIn(
            "runtimeClassName",
            self.worker("worker.gpu.enabled=true", "worker.gpu.runtimeClassName="),
        )
        self.assertNotIn("NVIDIA", str(self.worker()))

    def test_the_keeper_outlives_upgrades(self):
        documents = rendered("secrets")
        keeper, worker = only(documents, "DaemonSet", "-keeper"), only(
            documents, "DaemonSet", "-worker"
        )
        self.assertEqual(keeper["spec"]["updateStrategy"], {"type": "OnDelete"})
        ours, theirs = keeper["spec"]["template"]["spec"], worker["spec"]["template"]["spec"]
        for same in ("affinity", "securityContext", "tolerations"):
            expected = (
                {key: value for key, value in theirs[same].items() if key != "fsGroup"}
                if same == "securityContext"
                else theirs[same]
            )
            self.assertEqual(ours[same], expected)  # its socket is for the worker's user alone
        (socket,) = [volume for volume in theirs["volumes"] if volume["name"] == "socket"]
        self.assertEqual(ours["volumes"], [socket])
        settings = yaml.safe_load(only(documents, "ConfigMap", "-worker")["data"]["a.yaml"])
        self.assertEqual(settings["keeper_socket"], ours["containers"][0]["command"][-1])
        self.assertEqual(of_kind(rendered("full"), "DaemonSet", "-keeper"), [])

    def test_process_ids(self):
        self.assertTrue(self.worker("worker.hostPID=true")["hostPID"])
        self.assertNotIn("hostPID", self.worker())

    def test_cards_by_folder_or_by_plugin(self):
        folder = self.worker("worker.rdma.enabled=true")
        self.assertIn("/dev/infiniband", str(folder["volumes"]))
        self.assertEqual(
            folder["containers"][0]["securityContext"]["capabilities"]["add"], ["IPC_LOCK"]
        )
        plugin = self.worker("worker.rdma.enabled=true", "worker.rdma.resourceName=rdma/hca")
        self.assertNotIn("/dev/infiniband", str(plugin["volumes"]))
        self.assertEqual(plugin["containers"][0]["resources"]["limits"]["rdma/hca"], "1")

    def test_networks(self):
        self.assertEqual(
            (self.worker()["hostNetwork"], self.worker()["dnsPolicy"]),
            (True, "ClusterFirstWithHostNet"),
        )
        pods_network = self.worker("worker.hostNetwork=false")
        self.assertFalse(pods_network["hostNetwork"])
        self.assertNotIn("dnsPolicy", pods_network)

    def test_the_namespace_needs_the_level_that_the_readme_says(self):
        """Pod Security's baseline refuses hostPath and hostNetwork, so restricted does too; the
        server passes restricted (above)."""
        for values in ((), ("worker.hostNetwork=false",), ("worker.gpu.enabled=true",)):
            self.assertTrue(
                [volume for volume in self.worker(*values)["volumes"] if "hostPath" in volume]
            )


class TlsTest(unittest.TestCase):
    MODES = {"certmanager", "secrets", "files"}
    KEYS = {
        "server": {
            "tls_certificate_file",
            "tls_key_file",
            "tls_client_ca_file",
            "tls_trust_domain",
        },
        "worker": {"tls_ca_file", "tls_certificate_file", "tls_key_file"},
    }

    def test_both_sides_or_none(self):
        for case in CASES:
            documents = rendered(case)
            for side in ("server", "worker"):
                for _, text in (
                    only(documents, "ConfigMap", f"-{side}")["data"].items()
                    if of_kind(documents, "ConfigMap", f"-{side}")
                    else ()
                ):
                    keys = {key for key in yaml.safe_load(text) if key.startswith("tls_")} - {
                        "tls_server_name"
                    }
                    self.assertEqual(
                        keys, self.KEYS[side] if case in self.MODES else set(), (case, side)
                    )

    def test_every_file_that_a_setting_names_is_mounted(self):
        for case in self.MODES:
            for name, _, spec in pods(rendered(case)):
                if name.endswith("-keeper"):
                    continue
                mounts = {
                    mount["name"]: mount["mountPath"]
                    for mount in spec["containers"][0].get("volumeMounts", [])
                }
                self.assertEqual(mounts.get("tls"), "/etc/remesh-tls", (case, name))
                (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "tls"]
                if case != "files":
                    sources = volume["projected"]["sources"]
                    files = [
                        item["path"]
                        for source in sources
                        for kind in source.values()
                        for item in kind["items"]
                    ]
                    self.assertEqual(sorted(files), ["ca.crt", "tls.crt", "tls.key"])
                    self.assertEqual(volume["projected"]["defaultMode"], 0o440)
                    self.assertIn(
                        "fsGroup", spec["securityContext"]
                    )  # else the group cannot read them

    def test_certificates_say_what_the_server_looks_for(self):
        certificates = {
            document["metadata"]["name"].split("-")[-2]: document["spec"]
            for document in of_kind(rendered("certmanager"), "Certificate")
        }
        self.assertEqual(certificates["worker"]["uris"], ["spiffe://prod.example.com/worker/any"])
        self.assertEqual(certificates["client"]["uris"], ["spiffe://prod.example.com/viewer/test"])
        self.assertEqual(certificates["admin"]["uris"], ["spiffe://prod.example.com/admin/release"])
        self.assertEqual(
            certificates["server"]["dnsNames"][:2],
            ["planner.example.com", "release-remesh-server.space.svc"],
        )
        for side, spec in certificates.items():
            self.assertEqual(
                spec["usages"],
                ["digital signature", "server auth" if side == "server" else "client auth"],
            )
            self.assertEqual(
                spec["issuerRef"],
                {"name": "remesh-ca", "kind": "ClusterIssuer", "group": "cert-manager.io"},
            )
            self.assertEqual((spec["duration"], spec["renewBefore"]), ("12h", "4h"))

    def test_the_server_is_called_by_a_name_of_its_certificate(self):
        worker = yaml.safe_load(
            only(rendered("certmanager"), "ConfigMap", "-worker")["data"]["a.yaml"]
        )
        self.assertEqual(worker["tls_server_name"], "planner.example.com")
        plain = rendered(
            "defaults",
            "1.34",
            *NODES,
            "--set",
            "tls.mode=certManager,tls.certManager.issuerRef.name=ca",
        )
        worker = yaml.safe_load(only(plain, "ConfigMap", "-worker")["data"]["a.yaml"])
        names = [
            document["spec"]["dnsNames"]
            for document in of_kind(plain, "Certificate", "-server-tls")
        ][0]
        self.assertNotIn("tls_server_name", worker)
        self.assertIn(worker["server_address"].split(":")[0], names)

    def test_helm_test_shows_a_certificate_or_is_not_there(self):
        self.assertEqual(of_kind(rendered("files"), "Pod"), [])
        for case in self.MODES - {"files"}:
            environment = {
                entry["name"]
                for entry in only(rendered(case), "Pod")["spec"]["containers"][0]["env"]
            }
            self.assertEqual(
                environment,
                {
                    "REMESH_SERVER",
                    "REMESH_TLS_CA",
                    "REMESH_TLS_CERT",
                    "REMESH_TLS_KEY",
                    "REMESH_TLS_SERVER_NAME",
                },
            )

    def test_a_change_of_certificates_restarts_nobody(self):
        """Binaries read them again; a checksum of them would end open connections each time."""
        self.assertNotIn("checksum/tls", str(rendered("certmanager")))


class RefusalTest(unittest.TestCase):
    def assert_refused(self, words: str, *arguments):
        result = template(*arguments)
        self.assertNotEqual(result.returncode, 0, arguments)
        self.assertIn(words, result.stderr)

    def test_values_that_cannot_be(self):
        for words, setting in [
            ("lost_afterr", "server.config.lost_afterr=5s"),
            ("journal_path", "server.config.journal_path=/tmp/x"),
            ("device_ids", "worker.config.device_ids={1}"),
            ("lost_after", "server.config.lost_after=5 parsecs"),
            ("planner_threads", "server.config.planner_threads=0"),
            ("persistance", "server.persistance.enabled=false"),
            ("dataPort", "worker.dataPort=70000"),
            ("pullPolicy", "image.pullPolicy=Sometimes"),
            ("nodes", "worker.nodes.a=x"),
            ("tls", "tls.mode=mutual"),
            ("trustDomain", "tls.trustDomain=spiffe://x"),
            ("duration", "tls.certManager.duration=1d"),
            ("tls_key_file", "server.config.tls_key_file=/x"),
            ("tls_server_name", "worker.config.tls_server_name=x"),
        ]:
            with self.subTest(setting=setting):
                self.assert_refused(words, "--set", setting)

    def test_two_nodes_with_one_device_id(self):
        self.assert_refused(
            "a and b would share device id 7", "--set", "worker.nodes.a=0,worker.nodes.b=7"
        )

    def test_tls_without_what_its_mode_needs(self):
        for words, settings in [
            (
                "tls.existingSecret: server and worker must name Secrets",
                "tls.mode=existingSecret,tls.existingSecret.server=a",
            ),
            ("tls.certManager.issuerRef.name: must name an issuer", "tls.mode=certManager"),
            (
                "tls.files: server and worker must be volumes",
                "tls.mode=files,tls.files.server.hostPath.path=/x",
            ),
            (
                "tls.caConfigMap: has no effect",
                "tls.mode=files,tls.files.server.hostPath.path=/x,tls.files.worker.hostPath.path=/x,tls.caConfigMap=c",
            ),
        ]:
            with self.subTest(settings=settings):
                self.assert_refused(words, "--set", settings)

    def test_a_policy_that_would_lock_the_workers_out(self):
        self.assert_refused("networkPolicy.nodeCidrs", "--set", "networkPolicy.enabled=true")


class FilesTest(unittest.TestCase):
    def test_schema_and_readme_are_what_the_script_writes(self):
        check = run("/usr/bin/python3", ROOT / "helm" / "generate.py", "--check")
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)

    def test_every_value_has_a_line_in_the_readme(self):
        rows = set(
            re.findall(r"^\| `([\w.]+)` \|", (CHART / "README.md").read_text(), re.MULTILINE)
        )

        def missing(values, path):
            if path in rows:
                return
            if not isinstance(values, dict) or not values:
                yield path
                return
            for key, child in values.items():
                yield from missing(child, f"{path}.{key}".lstrip("."))

        self.assertEqual(list(missing(yaml.safe_load((CHART / "values.yaml").read_text()), "")), [])

    def test_the_option_tables_are_read_whole(self):
        for name in ("server", "worker"):
            self.assertEqual({option.key for option in options_of(name)}, set(example_keys(name)))

    def test_every_value_is_used(self):
        """A value that no template reads would be a promise."""
        templates = "".join(
            path.read_text() for path in (CHART / "templates").rglob("*") if path.is_file()
        )

        whole = {
            ".Values.server.resources",
            ".Values.monitoring.dashboards.labels",
            ".Values.tls.certManager.issuerRef",
        }

        def leaves(values, path):
            if isinstance(values, dict) and values and path not in whole:
                for key, child in values.items():
                    yield from leaves(child, f"{path}.{key}")
            else:
                yield path

        for path in leaves(yaml.safe_load((CHART / "values.yaml").read_text()), ".Values"):
            with self.subTest(value=path):
                self.assertRegex(templates, re.escape(path) + r"\b")

    def test_examples_are_kubernetes_objects(self):
        for path in sorted((ROOT / "helm" / "examples").glob("*.yaml")):
            for document in yaml.safe_load_all(path.read_text()):
                with self.subTest(example=path.name, kind=document["kind"]):
                    if "." not in document["apiVersion"] or document["apiVersion"].startswith(
                        "apps"
                    ):
                        self.assertEqual(kubernetes_faults(document, "1.34"), [])

    def test_the_example_of_a_job_sets_what_its_program_reads(self):
        job = yaml.safe_load((ROOT / "helm" / "examples" / "trainer-jax.yaml").read_text())
        (replicated,) = job["spec"]["replicatedJobs"]
        spec = replicated["template"]["spec"]
        (container,) = spec["template"]["spec"]["containers"]
        env = {variable["name"]: variable.get("value") for variable in container["env"]}
        program = (ROOT / "examples" / container["command"][-1]).read_text()
        self.assertEqual(set(re.findall(r'"(REMESH_\w+)"', program)) | {"REMESH_SOCKET"}, set(env))
        self.assertEqual(
            [str(spec[field]) for field in ("parallelism", "completions")],
            [env["REMESH_WORLD_SIZE"]] * 2,
        )
        name = job["metadata"]["name"]
        self.assertEqual(
            env["REMESH_COORDINATOR"].rpartition(":")[0], f"{name}-{replicated['name']}-0-0.{name}"
        )


if __name__ == "__main__":
    support.main(needs=["helm", *(f"kubernetes-{version}.json" for version in VERSIONS)])
