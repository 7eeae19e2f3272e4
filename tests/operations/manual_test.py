# SPDX-License-Identifier: Apache-2.0
"""What operators read names only what exists: commands, flags, settings, reasons, series, values of
the chart, files."""

import re
import sys
import unittest

import yaml

import support
from option_table import options_of
from support import CHART, ROOT, metric_table

sys.path.insert(0, str(ROOT / "tests" / "cluster"))
from readme import install_commands  # noqa: E402

PAGES = sorted(
    [
        ROOT / "docs" / "operations.md",
        CHART / "README.md",
        *(ROOT / "docs" / "runbooks").glob("*.md"),
    ]
)
SOURCES = ["base", "client", "planner", "proto", "server", "service", "worker"]
NOT_OURS = {"grafana_dashboard"}  # what Grafana's sidecar looks for
NOT_REASONS = {"REMESH_SERVER", "UCX_NET_DEVICES", "UCX_TLS", "NOT_SERVING"}


def commands() -> dict:
    """Subcommand of remeshctl -> its verbs, from where they are declared."""
    result = {}
    for path in (ROOT / "client" / "commands").glob("*.cc"):
        text = path.read_text()
        for name in re.findall(r'\bapp\.add_subcommand\(\s*"(\w+)"', text):
            result[name] = set(re.findall(r'\badd\(\s*"([\w-]+)"', text)) | set(
                re.findall(r'\w+->add_subcommand\(\s*"([\w-]+)"', text)
            )
    result["plans"] |= {"precompute"}
    return result


def code(text: str) -> list:
    """Everything between backticks, a line each; files of other programs left out."""
    blocks = re.findall(r"(?ms)^```\n(.*?)^```", text)
    rest = re.sub(r"(?ms)^```\w*\n.*?^```", "", text)
    return [line for block in blocks for line in block.splitlines()] + re.findall(
        r"`([^`\n]+)`", rest
    )


class ManualTest(unittest.TestCase):
    def check_lines(self, check):
        for page in PAGES:
            for line in code(page.read_text()):
                with self.subTest(page=page.name, line=line):
                    check(line)

    def test_commands_exist(self):
        known, count = commands(), 0

        def check(line):
            nonlocal count
            for words in re.findall(r"\bremeshctl((?: [\w-]+){1,2})", line):
                first, *rest = words.split()
                self.assertIn(first, known)
                if known[first] and rest:
                    self.assertIn(rest[0], known[first])
                count += 1

        self.check_lines(check)
        self.assertGreater(count, 20)

    def test_flags_of_remeshctl_exist(self):
        sources = "".join(path.read_text() for path in (ROOT / "client").rglob("*.cc"))

        def check(line):
            for arguments in re.findall(r"\bremeshctl ([^|;]*)", line):
                for flag in re.findall(r"(?<!\S)(--[a-z-]+)", arguments):
                    self.assertRegex(sources, rf'[",]{flag}\b', flag)

        self.check_lines(check)

    def test_reasons_exist(self):
        files = (path for folder in SOURCES for path in (ROOT / folder).rglob("*.*"))
        sources = "".join(path.read_text() for path in files if path.suffix in (".cc", ".h"))

        def check(line):
            for reason in re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", line):
                if reason not in NOT_REASONS:
                    self.assertIn(f'"{reason}"', sources)

        self.check_lines(check)

    def test_settings_and_values_exist(self):
        """Words with an underscore are settings, series or fields of the API; dotted ones that
        begin as a value of the chart are one."""
        settings = {option.key for binary in ("server", "worker") for option in options_of(binary)}
        protos = "".join(path.read_text() for path in (ROOT / "proto").rglob("*.proto"))
        values = yaml.safe_load((CHART / "values.yaml").read_text())

        def check(line):
            for word in re.findall(r"(?<![\w./{-])[a-z]+(?:_[a-z0-9]+)+\b(?!\.py|\.cc|\.md)", line):
                self.assertTrue(
                    word in settings
                    or word in NOT_OURS
                    or word in metric_table()
                    or re.search(rf"\b{word}\b", protos),
                    word,
                )
            for path in re.findall(
                r"(?<![\w./-])(?:server|worker|monitoring|networkPolicy|image|joinToken)(?:\.\w+)+",
                line,
            ):
                if path.split(".")[-1] not in {"yaml", "service", "log", "db"}:
                    self.assertTrue(self.has(values, path.split(".")), path)

        self.check_lines(check)

    def has(self, values, words) -> bool:
        for index, word in enumerate(words):
            if words[index - 1] == "config" and index == 2:
                return word in {option.key for option in options_of(words[0])}
            if not isinstance(values, dict) or word not in values:
                return False
            values = values[word]
        return True

    def test_the_chart_is_installed_by_commands_that_the_cluster_test_finds(self):
        commands = install_commands((CHART / "README.md").read_text())
        self.assertIn("helm install remesh helm/remesh", commands)
        self.assertNotIn("docker", commands)

    def test_links_lead_somewhere(self):
        for page in PAGES:
            for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
                with self.subTest(page=page.name, link=link):
                    self.assertTrue((page.parent / link).exists())

        def check(line):
            for path in re.findall(
                r"(?<![\w/.])(?:docs|helm|scripts|packaging|client|server|worker)/[\w./-]+\w", line
            ):
                self.assertTrue((ROOT / path).exists(), path)

        self.check_lines(check)


if __name__ == "__main__":
    support.main()
