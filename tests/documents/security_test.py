# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/security.md that make certificates by openssl, and processes that use them,
run as they stand."""

import subprocess
import unittest

from document import DocumentTest


class SecurityTest(DocumentTest):
    def test_certificates_by_hand_work(self):
        output = self.run_commands("security.md", blocks=2)
        self.assertRegex(output, r"(?m)^workers/host-a +ALIVE ")
        self.assertRegex(output, r"(?m)^NAME +GENERATION")  # the list that the job may have
        for name, id_ in (
            ("worker", "worker/host-a"),
            ("admin", "admin/me"),
            ("trainer", "job/quickstart/trainer"),
        ):
            with self.subTest(certificate=name):
                self.assertIn(f"URI:spiffe://remesh.local/{id_}\n", self._names(name))

    def _names(self, certificate):
        return subprocess.run(
            [
                "openssl",
                "x509",
                "-noout",
                "-ext",
                "subjectAltName",
                "-in",
                self.run_folder / "tls" / f"{certificate}.crt",
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout


if __name__ == "__main__":
    unittest.main()
