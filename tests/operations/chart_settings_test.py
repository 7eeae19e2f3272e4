# SPDX-License-Identifier: Apache-2.0
"""The settings in the chart: what the binaries take, and what was asked for."""

import base64
import pathlib
import re
import tempfile
import unittest

import yaml

from chart import CASES, NODES, main, of_kind, only, rendered
from option_table import options_of
from support import CHART, ROOT, binary, run


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

    def test_a_node_more_restarts_no_pod(self):
        def checksum(*arguments):
            annotations = only(rendered("defaults", "1.34", *arguments), "DaemonSet")["spec"][
                "template"
            ]["metadata"]["annotations"]
            return annotations["checksum/config"]

        self.assertEqual(checksum(*NODES), checksum(*NODES, "--set", "worker.nodes.c=16"))
        self.assertNotEqual(
            checksum(*NODES), checksum(*NODES, "--set", "worker.config.copy_threads=3")
        )

    def test_what_is_read_while_it_runs_restarts_no_pod(self):
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


if __name__ == "__main__":
    main()
