// SPDX-License-Identifier: Apache-2.0
#include "server/planning/kept_bytes.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "base/error.h"

namespace remesh::server {
namespace {

TEST(KeptBytesTest, ACallerHasAQuarterAndLeavesTheRestToOthers) {
  KeptBytes kept(400);
  std::vector<KeptBytes::Place> places;
  for (const char* caller : {"a", "b", "c", "d"}) {
    for (const size_t bytes : {60, 40}) {
      auto place = kept.Keep(caller, bytes);
      ASSERT_TRUE(place.ok()) << place.status();
      places.push_back(*std::move(place));
    }
    EXPECT_EQ(kept.Keep(caller, 1).status().code(), absl::StatusCode::kResourceExhausted);
  }
  const absl::Status full = kept.Keep("e", 1).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  const ErrorInfo info = GetErrorInfo(full);
  EXPECT_EQ(info.reason, "UNREAD_ANSWERS");
  EXPECT_EQ(info.metadata.at("caller"), "e");
  EXPECT_EQ(info.metadata.at("max_bytes"), "400");
  EXPECT_TRUE(info.metadata.contains("retry_after_seconds"));
  EXPECT_TRUE(kept.Keep("e", 0).ok());
}

TEST(KeptBytesTest, APlaceThatIsDroppedIsFreeOnce) {
  KeptBytes kept(400);
  auto place = kept.Keep("a", 100);
  ASSERT_TRUE(place.ok());
  std::optional<KeptBytes::Place> moved = *std::move(place);
  EXPECT_FALSE(kept.Keep("a", 1).ok());
  moved.reset();
  EXPECT_TRUE(kept.Keep("a", 100).ok());
  EXPECT_FALSE(kept.Keep("a", 101).ok());
}

}  // namespace
}  // namespace remesh::server
