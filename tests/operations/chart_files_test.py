# SPDX-License-Identifier: Apache-2.0
"""What comes with the chart: its schema, README, values and examples."""

import re
import unittest

import yaml

from chart import kubernetes_faults, main
from option_table import example_keys, options_of
from support import CHART, ROOT, run


class FilesTest(unittest.TestCase):
    def test_schema_and_readme_are_what_the_script_writes(self):
        check = run("/usr/bin/python3", ROOT / "helm" / "generate.py", "--check")
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)

    def test_every_value_has_a_line_in_the_readme(self):
        rows = set(
            re.findall(r"^\| `([\w.]+)` \|", (CHART / "README.md").read_text(), re.MULTILINE)
        )

        def missing(values, path):
            if path in rows:
                return
            if not isinstance(values, dict) or not values:
                yield path
                return
            for key, child in values.items():
                yield from missing(child, f"{path}.{key}".lstrip("."))

        self.assertEqual(list(missing(yaml.safe_load((CHART / "values.yaml").read_text()), "")), [])

    def test_the_option_tables_are_read_whole(self):
        for name in ("server", "worker"):
            self.assertEqual({option.key for option in options_of(name)}, set(example_keys(name)))

    def test_every_value_is_used(self):
        """A value that no template reads would be a promise."""
        templates = "".join(
            path.read_text() for path in (CHART / "templates").rglob("*") if path.is_file()
        )

        whole = {
            ".Values.server.resources",
            ".Values.monitoring.dashboards.labels",
            ".Values.tls.certManager.issuerRef",
        }

        def leaves(values, path):
            if isinstance(values, dict) and values and path not in whole:
                for key, child in values.items():
                    yield from leaves(child, f"{path}.{key}")
            else:
                yield path

        for path in leaves(yaml.safe_load((CHART / "values.yaml").read_text()), ".Values"):
            with self.subTest(value=path):
                self.assertRegex(templates, re.escape(path) + r"\b")

    def test_examples_are_kubernetes_objects(self):
        for path in sorted((ROOT / "helm" / "examples").glob("*.yaml")):
            for document in yaml.safe_load_all(path.read_text()):
                with self.subTest(example=path.name, kind=document["kind"]):
                    if "." not in document["apiVersion"] or document["apiVersion"].startswith(
                        "apps"
                    ):
                        self.assertEqual(kubernetes_faults(document, "1.34"), [])

    def test_the_example_of_a_job_sets_what_its_program_reads(self):
        job = yaml.safe_load((ROOT / "helm" / "examples" / "trainer-jax.yaml").read_text())
        (replicated,) = job["spec"]["replicatedJobs"]
        spec = replicated["template"]["spec"]
        (container,) = spec["template"]["spec"]["containers"]
        env = {variable["name"]: variable.get("value") for variable in container["env"]}
        program = (ROOT / "examples" / container["command"][-1]).read_text()
        self.assertEqual(set(re.findall(r'"(REMESH_\w+)"', program)) | {"REMESH_SOCKET"}, set(env))
        self.assertEqual(
            [str(spec[field]) for field in ("parallelism", "completions")],
            [env["REMESH_WORLD_SIZE"]] * 2,
        )
        name = job["metadata"]["name"]
        self.assertEqual(
            env["REMESH_COORDINATOR"].rpartition(":")[0], f"{name}-{replicated['name']}-0-0.{name}"
        )


if __name__ == "__main__":
    main()
