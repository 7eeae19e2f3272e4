// SPDX-License-Identifier: Apache-2.0
//
// What all help texts have in common.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <future>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/testing/all_commands.h"
#include "client/testing/remeshctl.h"

namespace remesh::client {
namespace {

// The examples in a help text, as a user would type them.
std::vector<std::string> ExamplesIn(const std::string& help) {
  std::vector<std::string> examples;
  for (const std::string& line : LinesOf(help)) {
    if (absl::StartsWith(line, "  remeshctl ")) examples.push_back(line.substr(2));
  }
  return examples;
}

// The words of a text that look like flags.
std::set<std::string> FlagsIn(const std::string& text) {
  std::set<std::string> flags;
  for (size_t at = text.find("--"); at != text.npos; at = text.find("--", at + 2)) {
    size_t end = at + 2;
    while (end < text.size() && (absl::ascii_isalnum(text[end]) || text[end] == '-')) ++end;
    const std::string flag = text.substr(at, end - at);
    if (flag.size() > 2 && flag.back() != '-') flags.insert(flag);
  }
  return flags;
}

class HelpTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const std::string& command : AllCommands())
      helps_[command] = Remeshctl(absl::StrCat("help ", command)).out;
  }
  static inline std::map<std::string, std::string> helps_;  // by command
};

TEST_F(HelpTest, PutSaysHowNamesOfArraysBecomeFiles) {
  EXPECT_NE(helps_["put"].find("a leading \".\" is %2E"), std::string::npos) << helps_["put"];
}

TEST_F(HelpTest, EveryCommandHasTwoExamplesOfItself) {
  EXPECT_GT(helps_.size(), 60u);
  for (const auto& [command, help] : helps_) {
    EXPECT_EQ(ExamplesIn(help).size(), 2u) << help;
    for (const std::string& example : ExamplesIn(help))
      EXPECT_TRUE(absl::StartsWith(example, absl::StrCat("remeshctl ", command))) << example;
  }
}

// Nothing answers the examples here, but the parser takes them: a usage error would be 2.
TEST_F(HelpTest, EveryExampleIsTaken) {
  std::string path = testing::TempDir() + "/remeshctl_help.XXXXXX";
  const std::string folder = mkdtemp(path.data());
  const char* bin = std::getenv("REMESH_BIN_DIR");
  const std::string binaries =
      std::filesystem::absolute(bin == nullptr ? "build/release/bin" : bin).string();
  std::filesystem::create_directories(folder + "/.local/share/bash-completion/completions");
  const auto take = [&](const std::string& example, const std::string& name) {
    const std::string err = absl::StrCat(folder, "/", name);
    const std::string line =
        absl::StrCat("cd ", folder, " && export HOME=", folder, " PATH=", binaries,
                     ":$PATH REMESH_SERVER=127.0.0.1:1 REMESH_SOCKET=", folder,
                     "/none && timeout 100 ", example, " > /dev/null 2> ", err, " < /dev/null");
    const int code = WEXITSTATUS(std::system(line.c_str()));
    EXPECT_NE(code, 2) << example << "\n" << ReadAll(err);
    EXPECT_NE(code, 124) << example;
  };
  // Those that watch wait for half a minute until they give up: they all wait together.
  std::vector<std::future<void>> taken;
  for (const auto& [command, help] : helps_) {
    if (command == "demo") continue;  // it would run
    for (const std::string& example : ExamplesIn(help)) {
      const std::string name = absl::StrCat("example-", taken.size());
      taken.push_back(std::async(std::launch::async, take, example, name));
    }
  }
  for (std::future<void>& each : taken) each.get();
  std::filesystem::remove_all(folder);
}

// Regression: reshard listed --donate, which every server refuses.
TEST_F(HelpTest, NoFlagIsNamedThatIsNotThere) {
  // Of all commands, of remesh-server and of remesh launch.
  std::set<std::string> known = {"--context", "--check-journal", "--min", "--max"};
  for (const auto& [command, help] : helps_) {
    for (const std::string& line : LinesOf(help)) {
      if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "-"))
        for (const std::string& flag : FlagsIn(line.substr(0, line.find("  ", 4))))
          known.insert(flag);
    }
  }
  EXPECT_TRUE(known.contains("--targets"));
  EXPECT_FALSE(known.contains("--donate"));
  for (const auto& [command, help] : helps_) {
    for (const std::string& flag : FlagsIn(help))
      EXPECT_TRUE(known.contains(flag)) << command << " names " << flag;
  }
}

}  // namespace
}  // namespace remesh::client
