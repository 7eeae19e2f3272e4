# SPDX-License-Identifier: Apache-2.0
"""Certificates of the Python client: where they are named, and that a change of the files is
noticed. Handshakes: end_to_end_tls."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from remesh.connection import ServerConnection, Tls

PEM = (
    "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE "
    "KEY-----\n-----END PRIVATE KEY-----\n"
)
NAMES = {"REMESH_TLS_CA": "ca", "REMESH_TLS_CERT": "crt", "REMESH_TLS_KEY": "key"}


class ConnectionTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "all.pem"
        self.file.write_text(PEM.format("1"))
        self.tls = Tls(*[str(self.file)] * 3)

    def test_the_environment_names_all_files_or_none(self):
        with mock.patch.dict(os.environ, clear=True):
            self.assertIsNone(Tls.from_environment())
        with mock.patch.dict(os.environ, {**NAMES, "REMESH_TLS_SERVER_NAME": "s"}, clear=True):
            self.assertEqual(Tls.from_environment(), Tls("ca", "crt", "key", "s"))
        with mock.patch.dict(os.environ, {"REMESH_TLS_CA": "ca"}, clear=True):
            with self.assertRaisesRegex(ValueError, "REMESH_TLS_CERT: value '' must be set"):
                Tls.from_environment()

    def test_what_is_no_pem_is_named(self):
        self.file.write_text("garbage")
        with self.assertRaisesRegex(
            ValueError, r"tls\.ca: value '.*all\.pem' must hold PEM with CERTIFICATE"
        ):
            ServerConnection("127.0.0.1:1", tls=self.tls)

    def test_changed_files_make_a_new_channel_and_bad_ones_do_not(self):
        connection = ServerConnection("127.0.0.1:1", tls=self.tls)
        first = connection.channel()
        self.assertIs(connection.channel(), first)
        self.file.write_text("garbage")
        self.assertIs(connection.channel(), first)
        self.file.unlink()
        self.assertIs(connection.channel(), first)
        self.file.write_text(PEM.format("2"))
        self.assertIsNot(connection.channel(), first)
        connection.close()


if __name__ == "__main__":
    unittest.main()
