# SPDX-License-Identifier: Apache-2.0
"""docs/quickstart.md, run as it stands."""

import unittest

from document import DocumentTest


class QuickstartTest(DocumentTest):
    def test_every_command_works(self):
        self.assertIn(
            "every element is where it should be", self.run_commands("quickstart.md", blocks=6)
        )
        self.assertFalse(self.run_folder.exists())


if __name__ == "__main__":
    unittest.main()
