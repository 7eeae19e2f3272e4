# SPDX-License-Identifier: Apache-2.0
"""The Dockerfile and its script, without building an image."""

import re
import unittest

import support
from support import ROOT, TOOLS, run


class ImageTest(unittest.TestCase):
    def test_hadolint_has_nothing_to_say(self):
        check = run(
            TOOLS / "hadolint",
            "--no-color",
            ROOT / "Dockerfile",
            ROOT / "helm" / "examples" / "Dockerfile",
        )
        self.assertEqual((check.returncode, check.stdout), (0, ""), check.stderr)

    def test_its_scripts_are_sound(self):
        check = run(
            "shellcheck", "-x", ROOT / "scripts" / "image", ROOT / "packaging" / "image" / "sbom"
        )
        self.assertEqual((check.returncode, check.stdout), (0, ""), check.stderr)

    def test_what_runs_has_no_rights(self):
        runtime = (ROOT / "Dockerfile").read_text().split(" AS runtime")[1]
        self.assertRegex(runtime, r"(?m)^USER 65532:65532$")
        self.assertNotRegex(runtime.split("\nUSER ")[1], r"(?m)^(RUN|COPY|ADD|USER)")

    def test_the_script_passes_what_the_dockerfile_takes(self):
        taken = set(re.findall(r"(?m)^ARG (\w+)", (ROOT / "Dockerfile").read_text()))
        passed = set(re.findall(r'--build-arg "(\w+)=', (ROOT / "scripts" / "image").read_text()))
        self.assertEqual(passed, taken - {"BASE"})

    def test_nccl_is_pinned_and_left_out_unless_asked_for(self):
        text = (ROOT / "Dockerfile").read_text()
        self.assertRegex(text, r"(?m)^ARG NCCL=none$")
        self.assertIn("--require-hashes", text.split(" AS nccl-pypi")[1].split("\nFROM ")[0])
        (pin,) = [
            line
            for line in (ROOT / "scripts" / "nccl.txt").read_text().splitlines()
            if not line.startswith("#")
        ]
        self.assertRegex(pin, r"^nvidia-nccl-cu13==[0-9.]+ --hash=sha256:[0-9a-f]{64}$")

    def test_an_image_for_gpus_wants_binaries_for_them(self):
        """Else it would start, and refuse `device: cuda` on every node."""
        cache = ROOT / "build" / "release" / "CMakeCache.txt"
        if not (ROOT / "build" / "release" / "bin" / "remeshctl").exists() or re.search(
            r"(?m)^REMESH_NVCC:FILEPATH=/", cache.read_text()
        ):
            self.skipTest("build/release has the CUDA device, or is not built")
        check = run(ROOT / "scripts" / "image", "--nccl")
        self.assertEqual(check.returncode, 1)
        self.assertRegex(check.stderr, "has no CUDA device|apt-get install")

    def test_the_parts_list_is_one(self):
        """SPDX: an id of letters, digits, dots and dashes for every package, each with its
        version."""
        document = run("sh", ROOT / "packaging" / "image" / "sbom")
        self.assertEqual(document.returncode, 0, document.stderr)
        self.assertTrue(document.stdout.startswith("SPDXVersion: SPDX-2.3\n"))
        names = re.findall(r"(?m)^PackageName: (\S+)$", document.stdout)
        ids = re.findall(r"(?m)^SPDXID: (\S+)$", document.stdout)
        self.assertGreater(len(names), 50)
        self.assertEqual(len(set(ids)), len(names) + 1)
        for identity in ids:
            self.assertRegex(identity, r"^SPDXRef-[A-Za-z0-9.-]+$")


if __name__ == "__main__":
    support.main(needs=["hadolint"])
