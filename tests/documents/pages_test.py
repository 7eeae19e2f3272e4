# SPDX-License-Identifier: Apache-2.0
"""Pages that need no server, run as they stand."""

import re
import unittest

from document import ROOT, DocumentTest


class DocumentsTest(DocumentTest):
    def test_why(self):
        output = self.run_commands("why.md", blocks=1, server=False)
        shown = re.search(
            r"(?ms)^```text explain\n(.*?)^```", (ROOT / "docs" / "why.md").read_text()
        )[1]
        self.assertIn(shown, output)
        self.assertIn("predicted        46.9 ms", output)

    def test_concepts(self):
        output = self.run_commands("concepts.md", blocks=3, server=False)
        self.assertRegex(output, r"10 +\[0:2\]")
        self.assertIn("8 x 1 -> 4 x 1 -> 1 x 4", output)
        self.assertIn("4 boxes are held by lost devices only", output)

    def test_python(self):
        self.assertIn(
            "device 3 holds w[0, ", self.run_commands("python.md", blocks=1, server=False)
        )

    def test_questions(self):
        self.assertIn("{devices=[2,2]<=[4]}", self.run_commands("faq.md", blocks=2, server=False))


if __name__ == "__main__":
    unittest.main()
