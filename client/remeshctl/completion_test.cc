// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/testing/remeshctl.h"

namespace remesh::client {
namespace {

// A shell that has loaded the output of `remeshctl completion`.
class CompletionTest : public testing::Test {
 protected:
  CompletionTest() {
    std::string path = testing::TempDir() + "/remeshctl_completion.XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~CompletionTest() override { std::filesystem::remove_all(folder_); }

  static bool Has(const std::string& shell) {
    return std::system(absl::StrCat("command -v ", shell, " >/dev/null").c_str()) == 0;
  }
  void Load(const std::string& shell) {
    std::ofstream(folder_ + "/completion") << Remeshctl("completion " + shell).out;
  }
  // The output and errors of `script`, one word a line.
  std::string Run(const std::string& shell, const std::string& script) {
    std::ofstream(folder_ + "/script") << script;
    const std::string command = absl::StrCat("cd ", folder_, " && HOME=", folder_,
                                             " TERM=xterm timeout 60 ", shell, " script 2>&1");
    FILE* pipe = popen(command.c_str(), "r");
    std::string out;
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) out.append(buffer, n);
    EXPECT_EQ(pclose(pipe), 0) << out;
    return absl::StrJoin(absl::StrSplit(out, absl::ByAnyChar(" \n"), absl::SkipEmpty()), " ");
  }

  // The completions of `words`, of which the last is incomplete.
  std::string Bash(const std::string& words) {
    return Run("bash", absl::StrCat("source ./completion\nCOMP_WORDS=(", words,
                                    ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_remeshctl\n",
                                    "echo \"${COMPREPLY[*]}\"\n"));
  }
  std::string Fish(const std::string& line) {
    return Run("fish --no-config", absl::StrCat("source ./completion\ncomplete -C '", line,
                                                "' | string replace -r '\\t.*' ''\n"));
  }
  // A shell with a terminal, where TAB is pressed after `line`; it writes down what it would add.
  std::string Zsh(const std::string& line) {
    return Run("zsh -f", absl::StrCat(R"(zmodload zsh/zpty
rm -f told
zpty shell zsh -f -i
zpty -w shell 'source ./completion'
zpty -w shell 'compadd() {
  emulate -L zsh
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
  local -a hits
  builtin compadd -A hits "$@"
  print -l -- $hits >> told.new
}'
zpty -w shell 'comppostfuncs=(tell); tell() { mv told.new told }; print -n > told.new'
zpty -w -n shell ')",
                                      line, R"('$'\t'
for i in {1..300}; do [[ -e told ]] && break; sleep 0.1; done
zpty -d shell
cat told
)"));
  }

  std::string folder_;
};

TEST_F(CompletionTest, BashCompletes) {
  Load("bash");
  EXPECT_EQ(Bash("remeshctl pla"), "plan plans");
  EXPECT_EQ(Bash("remeshctl plans unp"), "unpin");
  EXPECT_EQ(Bash("remeshctl plan -f x --vi"), "--view");
  EXPECT_EQ(Bash("remeshctl plan --view f"), "full");
  EXPECT_EQ(Bash("remeshctl plans get --output ''"), "table wide json yaml name");
  EXPECT_EQ(Bash("remeshctl completion z"), "zsh");
  EXPECT_EQ(Bash("remeshctl jobs ''").substr(0, 11), "list delete");
  EXPECT_EQ(Bash("remeshctl jobs delete j --y"), "--yes");
  EXPECT_EQ(Bash("remeshctl states delete s --no"), "--no-wait");
  EXPECT_EQ(Remeshctl("completion tcsh").code, 2);
}

// The names that bash offers are the words of the command that it would run for them.
TEST_F(CompletionTest, BashAsksTheServerForNames) {
  Load("bash");
  const auto asked = [&](const std::string& words) {
    return Run("bash",
               absl::StrCat("source ./completion\nremeshctl() { echo \"$*\"; }\n", "COMP_WORDS=(",
                            words, ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_remeshctl\n",
                            "echo \"${COMPREPLY[*]}\"\n"));
  };
  EXPECT_EQ(asked("remeshctl states get ''"), "states list -o name --timeout 2");
  EXPECT_EQ(asked("remeshctl reshard --server a:1 ''"),
            "states list -o name --timeout 2 --server a:1");
  EXPECT_EQ(asked("remeshctl workers drain ''"), "workers list -o name --timeout 2");
  EXPECT_EQ(asked("remeshctl executions get ''"), "executions list -o name --timeout 2");
  EXPECT_EQ(asked("remeshctl plans describe ''"), "plans list -o name --timeout 2");
  EXPECT_EQ(asked("remeshctl jobs delete ''"), "jobs list -o name --timeout 2");
  EXPECT_EQ(asked("remeshctl reshard s --plan ''"), "plans list -o name --timeout 2");
  EXPECT_EQ(asked("remeshctl states list --parent ''"), "jobs list -o name --timeout 2");
  EXPECT_EQ(asked("remeshctl states get --serv"), "--server");
}

// Regression: zsh offered only files, because bash's script means something else there.
TEST_F(CompletionTest, ZshCompletes) {
  if (!Has("zsh")) GTEST_SKIP() << "zsh is not installed";
  Load("zsh");
  EXPECT_EQ(ReadAll(folder_ + "/completion").find("#compdef remeshctl\n"), 0u);
  EXPECT_EQ(Zsh("remeshctl pla"), "plan plans");
  EXPECT_EQ(Zsh("remeshctl plans unp"), "unpin");
  EXPECT_EQ(Zsh("remeshctl plan -f x --vi"), "--view");
  EXPECT_EQ(Zsh("remeshctl plan --view f"), "full");
  EXPECT_EQ(Zsh("remeshctl plans get --output "), "table wide json yaml name");
}

// Regression: it offered only files, and printed errors.
TEST_F(CompletionTest, FishCompletes) {
  if (!Has("fish")) GTEST_SKIP() << "fish is not installed";
  Load("fish");
  EXPECT_EQ(Fish("remeshctl pla"), "plan plans");
  EXPECT_EQ(Fish("remeshctl plans unp"), "unpin");
  EXPECT_EQ(Fish("remeshctl plan -f x --vi"), "--view");
  EXPECT_EQ(Fish("remeshctl plan --view f"), "full");
  EXPECT_EQ(Fish("remeshctl plans get --output "), "json name table wide yaml");
}

}  // namespace
}  // namespace remesh::client
