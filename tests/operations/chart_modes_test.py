# SPDX-License-Identifier: Apache-2.0
"""What a value switches on or off in the worker's pod, and values that are refused."""

import unittest

import yaml

from chart import NODES, main, of_kind, only, rendered, template


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
                "tls.mode=files,tls.files.server.hostPath.path=/x,"
                "tls.files.worker.hostPath.path=/x,tls.caConfigMap=c",
            ),
        ]:
            with self.subTest(settings=settings):
                self.assert_refused(words, "--set", settings)

    def test_a_policy_that_would_lock_the_workers_out(self):
        self.assert_refused("networkPolicy.nodeCidrs", "--set", "networkPolicy.enabled=true")


if __name__ == "__main__":
    main()
