// SPDX-License-Identifier: Apache-2.0
// What goes wrong during a move is noticed, and named: damaged bytes, sources that change, hosts that
// go away.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "worker/execution/mover.h"
#include "worker/execution/testing/mover_cases.h"
#include "worker/execution/testing/mover_fixture.h"

namespace remesh::worker {

using planner::Box;
using planner::Space;

namespace {

// A bit flips in a relay's memory after the relay has checked what arrived. The digests are the
// origin's, so the next receiver notices, and names the relay.
TEST_P(MoverTest, ABitThatFallsOverInARelayIsCaughtByTheNext) {
  TestCase c;
  c.hosts = 3;
  c.windows = 2;
  c.arrays = {{"r", {1025, 41}, "u8"}};
  const Box all = Box::Whole(c.arrays[0].shape);
  c.source = {{0, 0, all}};
  c.target = {{0, 4, all}};
  c.operations = {{0, 0, all, 0, 3, Space::kSource, Space::kStaging},
                  {1, 0, all, 3, 4, Space::kStaging, Space::kTarget}};
  Start(c);
  ASSERT_TRUE(Transfer(1));
  SimMemory::Behind(hosts_[1]->staging(1))[20000] ^= std::byte{16};
  GrantAll();
  ASSERT_TRUE(Until([&] { return hosts_[2]->failure.has_value(); }));
  const ErrorInfo error = GetErrorInfo(*hosts_[2]->failure);
  EXPECT_EQ(error.reason, "DIGEST_MISMATCH");
  EXPECT_EQ(error.metadata.at("host"), "host-1");
  // The second chunk: it begins with element 16384.
  EXPECT_EQ(error.metadata.at("box"), (Box{{{399, 400}, {25, 41}}}).DebugString());
}

TEST_P(MoverTest, SpoiledBytesAreCaughtOnArrival) {
  if (OnGpus()) GTEST_SKIP() << "spoils memory that only the host has";
  Start(RowsToColumns(2, 1), {}, Tap{.spoil = true});
  GrantAll();
  ASSERT_TRUE(Until([&] { return hosts_[0]->failure && hosts_[1]->failure; }));
  EXPECT_EQ(GetErrorInfo(*hosts_[0]->failure).reason, "DIGEST_MISMATCH");
  EXPECT_EQ(GetErrorInfo(*hosts_[0]->failure).metadata["host"], "host-1");
  EXPECT_TRUE(GetErrorInfo(*hosts_[0]->failure).metadata.contains("array"));
  EXPECT_EQ(hosts_[0]->done_windows, 0);
  for (auto& host : hosts_) ExpectElements(*host, host->source());
}

TEST_P(MoverTest, ASourceWrittenDuringTheTransferIsCaught) {
  Start(RowsToColumns(2, 2));
  ASSERT_TRUE(Transfer());
  std::vector<std::byte> bytes = hosts_[1]->Read(hosts_[1]->source(), 0);
  bytes[5] ^= std::byte{4};
  hosts_[1]->WriteAsTrainer(0, bytes);
  ASSERT_TRUE(CheckSources());
  EXPECT_TRUE(hosts_[0]->verified->ok());
  EXPECT_EQ(GetErrorInfo(*hosts_[1]->verified).reason, "SOURCE_MODIFIED");
  EXPECT_EQ(GetErrorInfo(*hosts_[1]->verified).metadata["array"], "w");
}

// What a device still writes, for example, which the kernel does not tell. A write by this process
// is not told either.
TEST_P(MoverTest, SourcesAreHashedAgainInAnyCaseIfAskedFor) {
  Start(RowsToColumns(2, 2), {.rechecks_always = true});
  ASSERT_TRUE(Transfer());
  std::vector<std::byte> bytes = hosts_[1]->Read(hosts_[1]->source(), 0);
  bytes[5] ^= std::byte{4};
  hosts_[1]->Write(hosts_[1]->source(), 0, bytes);
  ASSERT_TRUE(CheckSources());
  EXPECT_EQ(GetErrorInfo(*hosts_[1]->verified).reason, "SOURCE_MODIFIED");
}

// A chunk has arrived damaged: its origin says whether its memory still holds what it read.
TEST_P(MoverTest, TheOriginLooksAgainAtASpoiledChunk) {
  if (OnGpus()) GTEST_SKIP() << "spoils memory that only the host has";
  Start(RowsToColumns(2, 1), {}, Tap{.spoil = true});
  GrantAll();
  ASSERT_TRUE(Until([&] { return hosts_[0]->failure.has_value(); }));
  EXPECT_EQ(GetErrorInfo(*hosts_[0]->failure).metadata["receiver"], "host-0");
  const auto chunk = ChunkNamedIn(*hosts_[0]->failure);
  ASSERT_TRUE(chunk.has_value());
  const auto look = [&](int host) {
    std::optional<absl::Status> looked;
    hosts_[host]->mover().LookAgain(*chunk, [&](absl::Status status) { looked = status; });
    EXPECT_TRUE(Until([&] { return looked.has_value(); }));
    return looked.value_or(absl::OkStatus());
  };
  EXPECT_TRUE(look(1).ok()) << "the link spoiled it";
  TestHost& origin = *hosts_[1];
  // All of the source, because the transport decides which chunk arrives first.
  for (size_t shard = 0; shard < origin.source().shards.size(); ++shard) {
    std::vector<std::byte> bytes = origin.Read(origin.source(), shard);
    for (std::byte& byte : bytes) byte ^= std::byte{4};
    origin.Write(origin.source(), shard, bytes);
  }
  const absl::Status modified = look(1);
  EXPECT_EQ(GetErrorInfo(modified).reason, "SOURCE_MODIFIED");
  EXPECT_EQ(GetErrorInfo(modified).metadata["box"],
            GetErrorInfo(*hosts_[0]->failure).metadata["box"]);
  EXPECT_TRUE(look(0).ok()) << "it never had the chunk";
}

TEST(ChunkNameTest, OnlyAMismatchNamesAChunk) {
  const auto named = [](const char* reason, const char* tape, const char* position) {
    return ChunkNamedIn(MakeError(absl::StatusCode::kDataLoss, "no",
                                  {reason, {{"tape", tape}, {"position", position}}}));
  };
  EXPECT_EQ(named("DIGEST_MISMATCH", "3", "5000000000")->position, 5000000000);
  EXPECT_EQ(named("DIGEST_MISMATCH", "3", "-1")->position, -1);  // not in any stretch
  EXPECT_FALSE(named("DIGEST_MISMATCH", "x", "0"));
  EXPECT_FALSE(named("DIGEST_MISMATCH", "3", ""));
  EXPECT_FALSE(named("PEER_LOST", "3", "0"));
  EXPECT_FALSE(ChunkNamedIn(absl::OkStatus()));
}

// A lender that goes away at any time: his host fails and reads nothing more of it.
TEST_P(MoverTest, ALenderThatIsGoneFailsTheAttempt) {
  for (const int done : {0, 1, 3}) {
    SCOPED_TRACE(absl::StrCat("gone after ", done, " windows"));
    LeaseTable leases;
    const std::string token = *leases.Begin(0);
    Start(RowsToColumns(2, 3));
    TestHost& lent = *hosts_[1];
    const MappedShards& memory =
        lent.source().mapped != nullptr ? *lent.source().mapped : lent.source();
    const_cast<MappedShards&>(memory).lease = leases.Find(token);
    ASSERT_TRUE(Transfer(done));
    leases.End(token);
    const absl::Status status = EndAt(lent, done);
    EXPECT_EQ(GetErrorInfo(status).reason, "SOURCE_LOST") << status;
    EXPECT_EQ(lent.done_windows, done);
    StopAll();
  }
}

TEST_P(MoverTest, AStopInTheMiddleLeavesTheSourceAndIsNoticedByPeers) {
  Start(RowsToColumns(2, 4));
  Grant(2);
  ASSERT_TRUE(Until([&] { return hosts_[0]->done_windows == 2; }));
  hosts_[0]->mover().Stop();
  ASSERT_TRUE(Until([&] { return hosts_[0]->mover().stopped(); }));
  hosts_[1]->mover().Grant(4);
  ASSERT_TRUE(Until([&] { return hosts_[1]->failure.has_value(); }));
  EXPECT_EQ(GetErrorInfo(*hosts_[1]->failure).reason, "PEER_LOST");
  EXPECT_EQ(GetErrorInfo(*hosts_[1]->failure).metadata["host"], "host-0");
  EXPECT_FALSE(hosts_[0]->failure.has_value());
  for (auto& host : hosts_) ExpectElements(*host, host->source());
}

}  // namespace
}  // namespace remesh::worker
