# SPDX-License-Identifier: Apache-2.0
"""Which tests scripts/test-often chooses and how it runs them, in a small project of its own."""

import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parent.parent.parent / "scripts" / "test-often"
FILES = {
    "CMakePresets.json": json.dumps(
        {
            "version": 3,
            "configurePresets": [
                {
                    "name": "release",
                    "generator": "Ninja",
                    "binaryDir": "${sourceDir}/build/${presetName}",
                }
            ],
        }
    ),
    ".gitignore": "/build/\n",
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES CXX)
set(CMAKE_UNITY_BUILD ON)
enable_testing()
include_directories(${PROJECT_SOURCE_DIR})
add_library(support testing/support.cc)
foreach(name plain supported)
  add_executable(${name}_test ${name}_test.cc other_test.cc)
  add_test(NAME ${name}_test COMMAND ${name}_test ${PROJECT_SOURCE_DIR}/build/${name})
endforeach()
target_link_libraries(supported_test support)
add_test(NAME walk COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/walk_test.py)
add_test(NAME dive COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/deep/dive_test.py)
""",
    "scripts/build": (
        '#!/bin/sh\npreset=$1; shift\n[ $# -eq 0 ] || set -- --target "$@"\nexec cmake --build '
        'build/$preset "$@" >&2\n'
    ),
    "other_test.cc": "",
    # Both note each run under the filter that it was given, in the file that their first argument
    # names.
    "plain_test.cc": """#include <cstdio>
#include <cstdlib>
#define TEST(suite, name) void suite##name()
TEST(PlainTest, Works) {}
int main(int count, char** arguments) {
  std::FILE* file = std::fopen(arguments[1], "a");
  const char* filter = std::getenv("GTEST_FILTER");
  std::fprintf(file, "%s\\n", filter ? filter : "all");
  const long written = std::ftell(file);
  std::fclose(file);
  return std::getenv("FAIL_AFTER") && written > std::atol(std::getenv("FAIL_AFTER"));
}
""",
    "supported_test.cc": '#include "testing/support.h"\n#include "plain_test.cc"\n',
    "testing/support.h": "void Support();\n",
    "testing/support.cc": '#include "testing/support.h"\nvoid Support() {}\n',
    "tests/walk_test.py": "import helper\n",
    "tests/helper.py": "",
    "tests/deep/dive_test.py": "import above\n",
    "tests/above.py": "",
    "product.cc": "",
}


class TestOftenTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        for name, text in FILES.items():
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text(text)
        shutil.copy(SCRIPT, self.root / "scripts")
        (self.root / "scripts" / "build").chmod(0o755)
        self.git("init", "-q", "-b", "main")
        self.commit()
        subprocess.run(
            ["cmake", "--preset", "release"], cwd=self.root, check=True, stdout=subprocess.DEVNULL
        )
        subprocess.run(
            ["scripts/build", "release"], cwd=self.root, check=True, stderr=subprocess.DEVNULL
        )

    def git(self, *arguments):
        subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e", *arguments],
            cwd=self.root,
            check=True,
        )

    def commit(self):
        self.git("add", ".")
        self.git("commit", "-qm", "m")

    def change(self, *names):
        for name in names:
            with (self.root / name).open("a") as file:
                file.write("\n")

    def often(self, *arguments, **environment):
        return subprocess.run(
            [
                "env",
                *(f"{name}={value}" for name, value in environment.items()),
                "scripts/test-often",
                *arguments,
            ],
            cwd=self.root,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def chosen(self, ref="HEAD"):
        answer = self.often("--list", ref)
        self.assertEqual(answer.returncode, 0, answer.stdout)
        return sorted(
            line.removeprefix("test-often: ")
            for line in answer.stdout.splitlines()
            if line.startswith("test-often: ")
        )

    def test_what_did_not_change_is_not_chosen(self):
        self.assertEqual(self.chosen(), [])

    def test_the_product_chooses_no_test(self):
        self.change("product.cc")
        self.assertEqual(self.chosen(), [])

    def test_a_test_file_chooses_its_suites(self):
        self.change("plain_test.cc")
        self.assertIn("plain_test supported_test, only PlainTest.*", self.chosen())

    def test_a_support_header_chooses_the_whole_binaries_that_include_it(self):
        self.change("testing/support.h")
        self.assertEqual(self.chosen(), ["supported_test"])

    def test_a_support_source_chooses_what_links_it(self):
        self.change("testing/support.cc")
        self.assertEqual(self.chosen(), ["supported_test"])

    def test_a_module_chooses_the_scripts_that_import_it(self):
        self.change("tests/helper.py")
        self.assertEqual(self.chosen(), ["walk"])

    def test_a_module_of_the_folder_above_chooses_the_scripts_that_import_it(self):
        self.change("tests/above.py")
        self.assertEqual(self.chosen(), ["dive"])

    def test_a_name_narrows_the_choice(self):
        self.change("testing/support.h", "tests/helper.py")
        self.assertEqual(self.chosen(), ["supported_test walk"])
        self.assertIn("test-often: walk\n", self.often("--list", "-R", "^w", "HEAD").stdout)
        self.assertNotIn(
            "test-often: supported_test", self.often("--list", "-R", "^w", "HEAD").stdout
        )

    def test_a_test_that_nothing_runs_is_named(self):
        (self.root / "lonely_test.cc").write_text("")
        self.assertEqual(self.chosen(), ["no test of this build uses lonely_test.cc"])

    def test_the_last_commit_is_looked_at_where_nothing_was_landed(self):
        self.change("tests/helper.py")
        self.commit()
        answer = self.often("--list")
        self.assertIn("test-often: walk\n", answer.stdout)

    def test_a_new_test_is_built_and_runs_as_often_as_asked(self):
        self.change("plain_test.cc")
        answer = self.often("-n", "3", "HEAD")
        self.assertEqual(answer.returncode, 0, answer.stdout)
        runs = (self.root / "build" / "plain").read_text().splitlines()
        self.assertEqual(len(runs), 3)
        self.assertIn("PlainTest.*", runs[0])

    def test_one_failure_of_many_runs_fails(self):
        self.change("testing/support.h")
        answer = self.often("-n", "5", "HEAD", FAIL_AFTER=12)  # three runs write 4 bytes each
        self.assertEqual(answer.returncode, 1, answer.stdout)
        self.assertEqual(len((self.root / "build" / "supported").read_text().splitlines()), 4)


if __name__ == "__main__":
    unittest.main()
