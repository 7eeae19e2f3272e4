# SPDX-License-Identifier: Apache-2.0
"""The file of contexts, as the Python client reads it. remeshctl_test has the same cases for
remeshctl."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from remesh import contexts
from remesh.connection import Tls
from remesh.trainer import Trainer

FILE = """
current_context: one
contexts:
  one: {server: "127.0.0.1:1"}
  two: {server: "127.0.0.1:2", tls_ca: ca, tls_cert: /abs/crt, tls_key: key, tls_server_name: s,
    job: j}
"""


class ContextsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "config.yaml"
        self.file.write_text(FILE)
        patch = mock.patch.dict(
            os.environ, {"REMESH_CONFIG": str(self.file), "HOME": folder.name}, clear=True
        )
        patch.start()
        self.addCleanup(patch.stop)

    def test_the_environment_chooses_then_the_file(self):
        self.assertEqual(contexts.load(), {"server": "127.0.0.1:1"})
        self.assertEqual(contexts.load("two")["server"], "127.0.0.1:2")
        os.environ["REMESH_CONTEXT"] = "two"
        self.assertEqual(contexts.load()["server"], "127.0.0.1:2")

    def test_paths_are_relative_to_the_file_and_the_environment_wins(self):
        tls = Tls.of(contexts.load("two"))
        self.assertEqual(
            tls, Tls(str(self.file.parent / "ca"), "/abs/crt", str(self.file.parent / "key"), "s")
        )
        os.environ["REMESH_TLS_CA"] = "mine"
        self.assertEqual(Tls.of(contexts.load("two")).ca, "mine")

    def test_no_file_is_no_context(self):
        self.file.unlink()
        self.assertEqual(contexts.load(), {})
        with self.assertRaisesRegex(ValueError, "no context 'two'"):
            contexts.load("two")

    def test_what_cannot_be_is_named(self):
        for text, words in [
            ("contexts: {}", None),
            ("current_context: x", "no context 'x'"),
            ("{current_context: a, contexts: {a: {}}}", "contexts.a.server"),
            ("{current_context: a, contexts: {a: {server: x, tls: y}}}", "contexts.a.tls"),
        ]:
            self.file.write_text(text)
            if words is None:
                self.assertEqual(contexts.load(), {})
                continue
            with self.assertRaisesRegex(ValueError, words):
                contexts.load()

    def test_a_trainer_without_an_address_asks_the_context(self):
        trainer = Trainer(None, "/nowhere/worker.sock")
        self.addCleanup(trainer.close)
        self.assertEqual(
            trainer._server._address, "127.0.0.1:1"
        )  # pylint: disable=protected-access


if __name__ == "__main__":
    unittest.main()
