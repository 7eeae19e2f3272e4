// SPDX-License-Identifier: Apache-2.0
#include "base/text/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace remesh {
namespace {

TEST(NearestTest, Distances) {
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("same", "same"), 0u);
}

// The difference was taken of two numbers that were gone: a sanitizer says so here.
TEST(NearestTest, NamesOfAnotherLengthAreNotNear) {
  EXPECT_EQ(Nearest("host", {"h", "hosts_and_their_devices", "hosts"}), "hosts");
  EXPECT_EQ(Nearest("host", {"h", "hosts_and_their_devices"}), "");
}

// Regression: 200,000 names took seconds.
TEST(NearestTest, OnlyTheFirstOfManyNamesAreCompared) {
  std::vector<std::string> names(20'000, "something else");
  names[9'999] = "first";
  names[10'000] = "later";
  EXPECT_EQ(Nearest("firs", names), "first");
  EXPECT_EQ(Nearest("late", names), "");
}

TEST(NearestTest, PartsOfNamesAreComparedOneByOne) {
  const std::vector<std::string> names = {"jobs/llama/states/params", "jobs/llama/states/optimizer",
                                          "jobs/llama/executions/params"};
  using testing::ElementsAre;
  EXPECT_THAT(NearInEachPart("jobs/lama/states/parms", names), ElementsAre(names[0]));
  EXPECT_THAT(NearInEachPart("jobs/llama/states/params", names), ElementsAre(names[0]));
  EXPECT_THAT(NearInEachPart("jobs/llama/states/bias", names), ElementsAre());
  EXPECT_THAT(NearInEachPart("jobs/llama", names), ElementsAre());
}

// Regression: "workers get host-9" was asked whether it meant host-0.
TEST(NearestTest, AnotherNumberIsAnotherName) {
  const std::vector<std::string> names = {"workers/host-0", "workers/host-12"};
  EXPECT_THAT(NearInEachPart("workers/host-9", names), testing::ElementsAre());
  EXPECT_THAT(NearInEachPart("workers/hst-0", names), testing::ElementsAre(names[0]));
  EXPECT_THAT(NearInEachPart("workers/host-1", names), testing::ElementsAre());
  EXPECT_THAT(NearInEachPart("workers/hst-12", names), testing::ElementsAre(names[1]));
}

// Regression: "completion tcsh" was asked whether it meant bash.
TEST(NearestTest, AnotherShortWordIsNotNear) {
  EXPECT_EQ(Nearest("tcsh", {"bash", "zsh", "fish"}), "");
  EXPECT_EQ(Nearest("lsit", {"list"}), "list");
  EXPECT_EQ(Nearest("bsah", {"bash", "zsh", "fish"}), "bash");
}

TEST(NearestTest, SlipsAreFoundAndOtherWordsAreNot) {
  const std::vector<std::string> names = {"hlo_text", "sdy_text", "nics", "ids"};
  EXPECT_EQ(Nearest("hlo_txt", names), "hlo_text");
  EXPECT_EQ(Nearest("nicks", names), "nics");
  EXPECT_EQ(Nearest("nonsense", names), "");
  EXPECT_EQ(Nearest("x", names), "");
  EXPECT_EQ(Nearest("", names), "");
  EXPECT_EQ(Nearest(std::string(5000, 'a'), names), "");
  EXPECT_EQ(DidYouMean("idz", names), "; did you mean \"ids\"?");
  EXPECT_EQ(DidYouMean("nonsense", names), "");
  EXPECT_EQ(KnownNames("idz", names), "; did you mean \"ids\"?");
  EXPECT_EQ(KnownNames("v", {"weight", "bias"}), ", which has weight, bias");
  EXPECT_EQ(KnownNames("v", {}), ", which is empty");
}

}  // namespace
}  // namespace remesh
