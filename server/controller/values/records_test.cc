// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/records.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace remesh::server {
namespace {

absl::StatusOr<Restored> Read(const std::vector<Record>& records) {
  std::map<std::string, std::string> journal;
  for (const Record& record : records) journal[record.key] = record.bytes.value_or("");
  return ReadRecords(journal, [](const v1::StateSpec&) { return std::make_shared<PlacedState>(); });
}

TEST(RecordsTest, TombstonesNameStateUidOrderAndHosts) {
  const StateKey with_uid{"jobs/j/states/s", "11111111-2222-4333-8444-555555555555"};
  const StateKey old{"jobs/j/states/s", ""};
  std::vector<Record> records = TombstoneRecords(with_uid, {.order = 7, .hosts = {"a", "b"}});
  for (const Record& record : TombstoneRecords(old, {.order = 8, .hosts = {"c"}})) {
    records.push_back(record);
  }
  const auto restored = Read(records);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->tombstones.at(with_uid).hosts, (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(restored->tombstones.at(with_uid).order, 7u);
  EXPECT_EQ(restored->tombstones.at(old).hosts, std::set<std::string>{"c"});
  EXPECT_EQ(restored->tombstones.at(old).order, 8u);
  const Record deleted{"deleted/s@u", "1"};
  for (const auto& bad : {std::vector<Record>{{"deleted/jobs/j/states/s@u", ""}},
                          {{"deleted/s", "1"}},
                          {{"remains/s@u@a", ""}},
                          {deleted, {"remains/s@v@a", ""}},
                          {deleted, {"remains/s@u", ""}},
                          {deleted, {"remains/s@u@", ""}},
                          {deleted, {"remains/", ""}}}) {
    EXPECT_EQ(GetErrorInfo(Read(bad).status()).reason, "JOURNAL_CORRUPT") << bad.back().key;
  }
}

TEST(RecordsTest, HostsAndDigestsOfStartsComeBack) {
  const auto restored =
      Read({HostRecord("h-1", {.incarnation = 4, .secret_hash = {"\0\n\xff", 3}}),
            StartRequestRecord("jobs/j/executions/e", "digest"), LostLeadershipRecord("gone")});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->hosts.at("h-1").incarnation, 4);
  EXPECT_EQ(restored->hosts.at("h-1").secret_hash, std::string("\0\n\xff", 3));
  EXPECT_EQ(restored->start_digests.at("jobs/j/executions/e"), "digest");
  EXPECT_EQ(restored->lost_leaderships, std::set<std::string>{"gone"});
  EXPECT_EQ(GetErrorInfo(Read({{"host/a", "x"}}).status()).reason, "JOURNAL_CORRUPT");
}

TEST(RecordsTest, WorldsComeBack) {
  const SavedWorld world{.epoch = 7, .size = 4, .formed = absl::FromUnixSeconds(1'700'000'000)};
  const auto restored = Read({WorldRecord("jobs/j/worlds/main", world), LastWorldEpochRecord(9)});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->worlds.last_epoch, 9);
  EXPECT_EQ(restored->worlds.worlds.at("jobs/j/worlds/main"), world);
}

TEST(RecordsTest, WorldsThatMakeNoSenseAreRefused) {
  const Record good = WorldRecord("w", {.epoch = 7, .size = 4, .formed = absl::UnixEpoch()});
  for (const auto& bad : {std::vector<Record>{good},
                          {good, LastWorldEpochRecord(6)},
                          {{"world/w", "0\n4\n0"}, LastWorldEpochRecord(9)},
                          {{"world/w", "7\n0\n0"}, LastWorldEpochRecord(9)},
                          {{"world/w", "7\n4"}, LastWorldEpochRecord(9)},
                          {{"last_world_epoch", "-1"}}}) {
    EXPECT_EQ(GetErrorInfo(Read(bad).status()).reason, "JOURNAL_CORRUPT") << bad.front().key;
  }
}

TEST(RecordsTest, AnEpochWithoutASuccessorIsRefused) {
  EXPECT_EQ(GetErrorInfo(Read({EpochRecord(~uint64_t{0})}).status()).reason, "JOURNAL_CORRUPT");
  EXPECT_EQ(Read({EpochRecord(7)})->epoch, 7u);
}

// Found by tests/fuzz: a decided execution could not be carried out, and the server died at its
// start.
TEST(RecordsTest, ACommitWithoutItsTargetIsRefused) {
  v1::State state;
  state.set_name("jobs/j/states/s");
  v1::Execution execution;
  execution.set_name("jobs/j/executions/e");
  execution.set_state(state.name());
  execution.set_phase(v1::Execution::COMMITTING);
  EXPECT_EQ(
      GetErrorInfo(Read({StateRecord(state, {}), ExecutionRecord(execution)}).status()).reason,
      "JOURNAL_CORRUPT");
  EXPECT_TRUE(
      Read({StateRecord(state, {}), NextStateRecord(state, {}), ExecutionRecord(execution)}).ok());
}

// Found by tests/fuzz: a record under another's key passed the check of what is committing.
TEST(RecordsTest, ARecordIsOfWhatItsKeySays) {
  v1::State state;
  state.set_name("jobs/j/states/s");
  v1::Execution execution;
  execution.set_name("jobs/j/executions/e");
  for (Record record :
       {StateRecord(state, {}), NextStateRecord(state, {}), ExecutionRecord(execution)}) {
    record.key += "2";
    EXPECT_EQ(GetErrorInfo(Read({record}).status()).reason, "JOURNAL_CORRUPT") << record.key;
  }
}

}  // namespace
}  // namespace remesh::server
