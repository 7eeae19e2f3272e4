# SPDX-License-Identifier: Apache-2.0
"""The wheel installs into fresh virtual environments beside the packages that jobs have, and works
there."""

import pathlib
import re
import tempfile
import unittest
import venv

import support
from support import DIST, ROOT, VENV, WHEELS, run

TOUR = ROOT / "examples" / "numpy_tour.py"
IMPORTS = """
import importlib.metadata, pathlib, pkgutil, remesh
assert (pathlib.Path(remesh.__file__).parent / "py.typed").exists()
assert remesh.__version__ == importlib.metadata.version("remesh")
for module in pkgutil.walk_packages(remesh.__path__, "remesh."):
    needs_framework = module.name.startswith(("remesh.jax", "remesh.torch"))
    if module.name != "remesh.demo.__main__" and not needs_framework:
        importlib.import_module(module.name)
import google.protobuf
print(google.protobuf.__version__)
"""
BESIDE_JAX = """
import jax, jax.numpy as jnp, remesh
from remesh.v1 import state_pb2
assert float(jnp.arange(4.0).sum()) == 6.0 and state_pb2.State(step=1).step == 1
"""
BESIDE_TORCH = """
import torch, remesh.torch
job = remesh.torch.Job("wheel")
saved, loaded = {"w": torch.arange(6.0), "n": 3}, {"w": torch.zeros(6), "n": 0}
job.save(saved, 1, block=True)
assert job.load(loaded).step == 1 and torch.equal(loaded["w"], saved["w"]) and loaded["n"] == 3
job.close()
"""
# torch and what it needs, but for what the wheel or JAX bring. Without NVIDIA's libraries pip
# cannot install it.
TORCH = (
    "torch",
    "torchgen",
    "filelock",
    "sympy",
    "mpmath",
    "networkx",
    "jinja2",
    "markupsafe",
    "fsspec",
    "typing_extensions.py",
)


class WheelTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="remesh-venv-")
        self.addCleanup(folder.cleanup)
        venv.create(folder.name)  # this machine's pip installs into it
        self.python = pathlib.Path(folder.name) / "bin" / "python"

    def install(self, *packages: str) -> None:
        wheel = next(DIST.glob("remesh-*.whl"))
        wanted = [package.replace("WHEEL", str(wheel)) for package in packages]
        run(
            "/usr/bin/python3",
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--python",
            self.python,
            "install",
            "--quiet",
            "--no-compile",
            "--no-index",
            "--find-links",
            WHEELS,
            *wanted
        )

    def check(self, protobuf: str) -> None:
        """Outside of the checkout's modules."""
        found = run(self.python, "-W", "error::UserWarning", "-c", IMPORTS, PYTHONPATH="").strip()
        self.assertRegex(found, protobuf)
        said = run(self.python, TOUR, PYTHONPATH="")
        self.assertEqual(
            len(re.findall(r"device \d+ holds w\[0, \d+\] to \[64, \d+\]", said)), 4, said
        )

    def test_beside_protobuf_4(self):
        self.install("WHEEL", "protobuf==4.25.*")
        self.check(r"^4\.25\.")

    def test_beside_protobuf_7(self):
        self.install("WHEEL", "protobuf==7.*")
        self.check(r"^7\.")

    def test_beside_jax_and_then_torch(self):
        self.install("WHEEL[jax]")
        self.check(r"^\d")
        run(self.python, "-c", BESIDE_JAX, PYTHONPATH="", JAX_PLATFORMS="cpu")
        self.link_torch()
        self.check_torch()

    def link_torch(self) -> None:
        """From build/venv: a copy takes 1.2 GB."""
        (theirs,), (ours,) = VENV.glob("lib/python*/site-packages"), self.python.parents[1].glob(
            "lib/python*/site-packages"
        )
        for name in TORCH:
            if not (ours / name).exists():
                (ours / name).symlink_to(theirs / name)

    def check_torch(self) -> None:
        run(self.python, "-m", "remesh.testing", self.python, "-c", BESIDE_TORCH, PYTHONPATH="")

    def test_beside_torch(self):
        self.install("WHEEL")
        self.link_torch()
        self.check_torch()

    def test_the_tour_is_short(self):
        self.assertLessEqual(len(TOUR.read_text().splitlines()), 40)


if __name__ == "__main__":
    support.main()
