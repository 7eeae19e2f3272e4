// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/refusal.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace remesh::worker {
namespace {

absl::Status Refused(const char* reason, const char* message = "no") {
  return MakeError(absl::StatusCode::kPermissionDenied, message,
                   {.reason = reason, .metadata = {}});
}

// Regression: after the first reason the log had no other for a minute.
TEST(RefusalNotesTest, EachNewReasonIsNoted) {
  const Timestamp now = std::chrono::hours(1);
  RefusalNotes notes;
  EXPECT_TRUE(notes.IsDue(Refused("JOIN_TOKEN"), now));
  EXPECT_FALSE(notes.IsDue(Refused("JOIN_TOKEN"), now));
  EXPECT_TRUE(notes.IsDue(Refused("HOST_SECRET"), now));
  EXPECT_TRUE(notes.IsDue(Refused("HOST_SECRET", "another one"), now));
  EXPECT_FALSE(notes.IsDue(Refused("HOST_SECRET", "another one"), now));
  EXPECT_TRUE(notes.IsDue(Refused("JOIN_TOKEN"), now));
}

TEST(RefusalNotesTest, OneThatLastsIsNotedOnceAMinute) {
  const Timestamp now = std::chrono::hours(1);
  RefusalNotes notes;
  EXPECT_TRUE(notes.IsDue(Refused("JOIN_TOKEN"), now));
  EXPECT_FALSE(notes.IsDue(Refused("JOIN_TOKEN"), now + std::chrono::seconds(59)));
  EXPECT_TRUE(notes.IsDue(Refused("JOIN_TOKEN"), now + std::chrono::seconds(60)));
  EXPECT_FALSE(notes.IsDue(Refused("JOIN_TOKEN"), now + std::chrono::seconds(119)));
}

TEST(RefusalNotesTest, AfterAnotherEndItIsNew) {
  const Timestamp now = std::chrono::hours(1);
  RefusalNotes notes;
  EXPECT_TRUE(notes.IsDue(Refused("JOIN_TOKEN"), now));
  notes.Forget();
  EXPECT_TRUE(notes.IsDue(Refused("JOIN_TOKEN"), now));
}

}  // namespace
}  // namespace remesh::worker
