// SPDX-License-Identifier: Apache-2.0
#include "base/problems.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh {
namespace {

absl::Status Wrong(const std::string& field) { return InvalidField(field, "-1", "must be >= 0"); }

TEST(ProblemsTest, TheFirstIsTheStatusAndTheOthersFollowInOrder) {
  Problems problems;
  EXPECT_TRUE(problems.Note(absl::OkStatus()).ok());
  EXPECT_TRUE(problems.empty());
  EXPECT_TRUE(problems.ToStatus().ok());
  for (const char* field : {"a", "b", "c"}) EXPECT_TRUE(problems.Note(Wrong(field)).ok());
  const absl::Status status = problems.ToStatus();
  EXPECT_EQ(status.message(), Wrong("a").message());
  EXPECT_EQ(GetErrorInfo(status), GetErrorInfo(Wrong("a")));
  const std::vector<FurtherProblem> want = {{"b", "value \"-1\" must be >= 0"},
                                            {"c", "value \"-1\" must be >= 0"}};
  EXPECT_EQ(FurtherProblems(status), want);
}

TEST(ProblemsTest, APathGoesInFrontOfEveryField) {
  Problems inner;
  ASSERT_TRUE(inner.Note(Wrong("shape")).ok());
  ASSERT_TRUE(inner.Note(Wrong("[2]")).ok());
  Problems outer;
  ASSERT_TRUE(outer.Note(Wrong("name")).ok());
  ASSERT_TRUE(outer.Note(AtField("arrays", inner.ToStatus())).ok());
  const std::vector<FurtherProblem> further = FurtherProblems(outer.ToStatus());
  ASSERT_EQ(further.size(), 2u);
  EXPECT_EQ(further[0].field, "arrays.shape");
  EXPECT_EQ(further[1].field, "arrays[2]");
}

TEST(ProblemsTest, AFieldIsNamedOnce) {
  Problems problems;
  for (const char* field : {"a", "b", "a", "b"}) ASSERT_TRUE(problems.Note(Wrong(field)).ok());
  EXPECT_EQ(FurtherProblems(problems.ToStatus()).size(), 1u);
}

TEST(ProblemsTest, AtMostTwentyFollow) {
  Problems problems;
  absl::Status full;
  int noted = 0;
  while (full.ok()) full = problems.Note(Wrong(absl::StrCat("f", noted++)));
  EXPECT_EQ(noted, 21);
  EXPECT_EQ(FurtherProblems(full).size(), 20u);
  EXPECT_EQ(full.message(), Wrong("f0").message());
}

TEST(ProblemsTest, WhatIsNotAboutTheInputEndsTheGathering) {
  Problems problems;
  ASSERT_TRUE(problems.Note(Wrong("a")).ok());
  const absl::Status spent = absl::ResourceExhaustedError("no memory");
  EXPECT_EQ(problems.Note(spent), spent);
}

}  // namespace
}  // namespace remesh
