# SPDX-License-Identifier: Apache-2.0
"""Which commits scripts/check-commits reads, and which subjects it refuses, in repositories of its
own."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parent.parent.parent / "scripts" / "check-commits"
SKIPPED = 77
GOOD = (
    "server: keep one log of plan events for all watchers",
    "client, server: name the write",
    "worker/local: embed the grammar",
    "end to end: lose a host",
    "docs: say what a drain does; add a page",
    "base: " + "x" * 66,
)
BAD = {
    "Rapid reset: who has us begin calls faster": "area: imperative",
    "keep one log": "area: imperative",
    "server:keep one log": "area: imperative",
    "server: Keep one log": "lower case",
    "server: keep one log.": "full stop",
    "server: added a log": "imperative",
    "server: adding a log": "imperative",
    "server: adds a log": "imperative",
    "server: a log of plan events": "imperative",
    "fixup! server: keep one log": "area: imperative",
    "base: " + "x" * 67: "73 characters",
}


class CheckCommitsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.repository = self.folder / "repository"
        self.seconds = 1_700_000_000
        self.git("init", "--quiet", "--initial-branch=main", str(self.repository), cwd=self.folder)

    def git(self, *words, cwd=None):
        time = f"@{self.seconds} +0000"
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_DATE": time,
            "GIT_COMMITTER_DATE": time,
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@b",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@b",
        }
        return subprocess.run(
            ["git", *words],
            cwd=cwd or self.repository,
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout.strip()

    def commit(self, *subjects):
        """Commits, each a second after the one before; returns the name of the last."""
        for subject in subjects:
            self.seconds += 1
            self.git("commit", "--quiet", "--allow-empty", "--message", subject)
        return self.git("rev-parse", "HEAD")

    def check(self, base, repository=None):
        done = subprocess.run(
            [
                SCRIPT,
                base,
                f"--base-seconds={self.base_seconds}",
                "--repository",
                repository or self.repository,
            ],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def old_base(self):
        base = self.commit("A first one that is older than the rule", "The last of those")
        self.base_seconds = self.seconds
        return base

    def clone(self, depth):
        self.git(
            "clone",
            "--quiet",
            f"--depth={depth}",
            f"file://{self.repository}",
            "shallow",
            cwd=self.folder,
        )
        return self.folder / "shallow"

    def test_good_subjects_after_the_base_pass(self):
        base = self.old_base()
        self.assertEqual(self.check(base), (0, "0 commits, 0 with a wrong subject\n"))
        self.commit(*GOOD)
        self.assertEqual(self.check(base), (0, f"{len(GOOD)} commits, 0 with a wrong subject\n"))

    def test_each_bad_subject_is_named_with_its_reason(self):
        base = self.old_base()
        self.commit(GOOD[0], *BAD)
        code, text = self.check(base)
        self.assertEqual(code, 1)
        lines = text.splitlines()
        self.assertEqual(lines[-1], f"{len(BAD) + 1} commits, {len(BAD)} with a wrong subject")
        for line, (subject, reason) in zip(lines, BAD.items()):
            self.assertIn(repr(subject), line)
            self.assertIn(reason, line)

    def test_merges_are_not_read(self):
        base = self.old_base()
        self.git("checkout", "--quiet", "-b", "side")
        self.commit(GOOD[0])
        self.git("checkout", "--quiet", "main")
        self.commit(GOOD[1])
        self.git("merge", "--quiet", "--no-ff", "--message", "Merge branch 'side'", "side")
        self.assertEqual(self.check(base), (0, "2 commits, 0 with a wrong subject\n"))

    def test_a_shallow_clone_without_the_base_is_checked_as_far_as_it_goes(self):
        base = self.old_base()
        self.commit(GOOD[0], "No area", GOOD[1])
        self.assertEqual(
            self.check(base, self.clone(1)), (0, "1 commits, 0 with a wrong subject\n")
        )
        self.git("fetch", "--quiet", "--depth=2", cwd=self.folder / "shallow")
        self.assertEqual(self.check(base, self.folder / "shallow")[0], 1)

    def test_a_shallow_clone_of_older_commits_has_none_to_check(self):
        base = self.old_base()
        self.git("checkout", "--quiet", "-B", "main", f"{base}~1")
        self.assertEqual(
            self.check(base, self.clone(1)), (0, "0 commits, 0 with a wrong subject\n")
        )

    def test_a_history_without_the_base_is_skipped_by_name(self):
        self.old_base()
        absent = "0123456789" * 4
        code, text = self.check(absent)
        self.assertEqual(
            (code, text), (SKIPPED, f"SKIP: commit {absent} is no part of this history\n")
        )

    def test_without_a_repository_it_is_skipped(self):
        base = self.old_base()
        empty = self.folder / "empty"
        empty.mkdir()
        code, text = self.check(base, empty)
        self.assertEqual(code, SKIPPED)
        self.assertIn("SKIP: no history to check", text)


if __name__ == "__main__":
    unittest.main()
