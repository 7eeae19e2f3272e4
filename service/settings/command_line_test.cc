// SPDX-License-Identifier: Apache-2.0
#include "service/settings/command_line.h"

#include <gtest/gtest.h>

namespace remesh::service {
namespace {

// A program with one command that has a verb, and one that has none.
class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest() {
    app_.require_subcommand(1);
    CLI::App* states = app_.add_subcommand("states");
    states->require_subcommand(1);
    states->add_subcommand("list")->add_option("--server", text_);
    CLI::App* plan = app_.add_subcommand("plan");
    plan->add_option("--server", text_);
    plan->add_option_group("One of")->add_option("-f,--file", text_)->required();
  }

  // The error for `words`; "parsed" when there is none.
  std::string ErrorFor(std::vector<const char*> words) {
    words.insert(words.begin(), "test");
    try {
      app_.parse(WordsForCli(static_cast<int>(words.size()), words.data()));
    } catch (const CLI::ParseError& error) {
      return UnknownWord(
          app_,
          {.elsewhere = {"--context"},
           .instead = {{"--address", "--server"}, {"--path", "--file"}, {"ls", "states list"}}});
    }
    return "parsed";
  }

  CLI::App app_;
  std::string text_;
};

TEST_F(CommandLineTest, AMistypedFlagIsNamedWithTheNearest) {
  EXPECT_EQ(ErrorFor({"plan", "-f", "x", "--sever", "y"}),
            "unknown flag --sever; did you mean --server?");
  EXPECT_EQ(ErrorFor({"plan", "-f", "x", "--sever=y"}),
            "unknown flag --sever; did you mean --server?");
  EXPECT_EQ(ErrorFor({"states", "list", "-server", "y"}),
            "unknown flag -server; did you mean --server?");
  EXPECT_EQ(ErrorFor({"plan", "-f", "x", "--contxt", "y"}),
            "unknown flag --contxt; did you mean --context?");
  EXPECT_EQ(ErrorFor({"plan", "-f", "x", "--wholly-other"}),
            "unknown flag --wholly-other; --help lists them");
  EXPECT_EQ(ErrorFor({"plan", "-f", "x", "-q"}), "unknown flag -q; --help lists them");
  EXPECT_EQ(ErrorFor({"plan", "-f", "x", "--context"}), "--context needs a value");
}

// Regression: it reported that the mistyped flag is required.
TEST_F(CommandLineTest, AMistypedFlagThatIsRequiredIsNamed) {
  EXPECT_EQ(ErrorFor({"plan", "--flie", "x"}), "unknown flag --flie; did you mean --file?");
}

TEST_F(CommandLineTest, AMistypedCommandIsNamedWithTheNearest) {
  EXPECT_EQ(ErrorFor({"plam", "-f", "x"}), "\"plam\" is not a command; did you mean \"plan\"?");
  EXPECT_EQ(ErrorFor({"states", "lsit"}), "\"lsit\" is not a command; did you mean \"list\"?");
  EXPECT_EQ(ErrorFor({"states", "x"}), "\"x\" is not a command; it is one of list");
  EXPECT_EQ(ErrorFor({"states", "list", "x"}), "\"x\" is an unexpected argument");
}

TEST_F(CommandLineTest, AWordOfOtherProgramsIsToldWhatToWriteInstead) {
  EXPECT_EQ(ErrorFor({"ls"}), "\"ls\" is not a command; did you mean \"states list\"?");
  EXPECT_EQ(ErrorFor({"plan", "-f", "x", "--address", "y"}),
            "unknown flag --address; did you mean --server?");
  EXPECT_EQ(ErrorFor({"states", "list", "--path", "y"}), "unknown flag --path; --help lists them");
}

TEST_F(CommandLineTest, AFlagBeforeItsCommandIsToldWhereToStand) {
  EXPECT_EQ(ErrorFor({"states", "--server", "y", "list"}),
            "unknown flag --server before the command; put flags after the command");
}

TEST_F(CommandLineTest, WordsThatAreKnownAreNotBlamed) {
  EXPECT_EQ(ErrorFor({"plan", "-f", "x"}), "parsed");
  EXPECT_EQ(ErrorFor({"plan"}), "");
  EXPECT_EQ(ErrorFor({"plan", "-f"}), "");
}

}  // namespace
}  // namespace remesh::service
