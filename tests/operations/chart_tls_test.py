# SPDX-License-Identifier: Apache-2.0
"""TLS in the chart: keys, mounts and certificates, in every mode."""

import unittest

import yaml

from chart import CASES, NODES, main, of_kind, only, pods, rendered


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

    def test_a_change_of_certificates_restarts_no_pod(self):
        """Binaries read them again; a checksum of them would end open connections each time."""
        self.assertNotIn("checksum/tls", str(rendered("certmanager")))


if __name__ == "__main__":
    main()
