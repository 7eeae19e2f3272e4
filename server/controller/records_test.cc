// SPDX-License-Identifier: Apache-2.0
#include "server/controller/records.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace remesh {
namespace {

absl::StatusOr<Restored> Read(const std::vector<Record>& records) {
  std::map<std::string, std::string> journal;
  for (const Record& record : records) journal[record.key] = record.bytes.value_or("");
  return ReadRecords(journal, [](const v1::StateSpec&) { return std::make_shared<PlacedState>(); });
}

TEST(RecordsTest, DeletionsNameStateUidAndHosts) {
  const StateKey with_uid{"jobs/j/states/s", "11111111-2222-4333-8444-555555555555"};
  const StateKey old{"jobs/j/states/s", ""};
  const auto restored =
      Read({DeletedRecord(with_uid, {"a", "b"}), {"deleted/jobs/j/states/s", ""}});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->deleted.at(with_uid), (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(restored->deleted.at(old), std::set<std::string>());
  EXPECT_EQ(NoDeletedRecord(old).key, "deleted/jobs/j/states/s");
}

TEST(RecordsTest, HostsAndDigestsOfStartsComeBack) {
  const auto restored =
      Read({HostRecord("h-1"), StartRequestRecord("jobs/j/executions/e", "digest")});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->hosts, std::set<std::string>{"h-1"});
  EXPECT_EQ(restored->start_digests.at("jobs/j/executions/e"), "digest");
}

TEST(RecordsTest, AnEpochWithoutASuccessorIsRefused) {
  EXPECT_EQ(GetErrorInfo(Read({EpochRecord(~uint64_t{0})}).status()).reason, "JOURNAL_CORRUPT");
  EXPECT_EQ(Read({EpochRecord(7)})->epoch, 7u);
}

}  // namespace
}  // namespace remesh
