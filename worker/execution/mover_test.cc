// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/mover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "worker/execution/testing/mover_fixture.h"

namespace remesh::worker {

using planner::Box;
using planner::Space;

namespace {

// Cuts [0, extent) of dimension `dim` in `parts` as XLA does.
std::vector<TestShard> Cut(const TestCase& c, int array, int dim, std::vector<int> devices) {
  std::vector<TestShard> shards;
  const Box whole = Box::Whole(c.arrays[array].shape);
  const int64_t size = whole.dims[dim].size(), parts = static_cast<int64_t>(devices.size());
  const int64_t tile = (size + parts - 1) / parts;
  for (int64_t p = 0; p < parts; ++p) {
    Box box = whole;
    box.dims[dim] = {std::min(p * tile, size), std::min((p + 1) * tile, size)};
    if (!box.empty()) shards.push_back({array, devices[p], box});
  }
  return shards;
}

void Append(std::vector<TestShard>& to, std::vector<TestShard> from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Arrays from one device to another, each of a few bytes.
TestCase SmallArrays(int count) {
  TestCase c;
  for (int i = 0; i < count; ++i) {
    c.arrays.push_back({absl::StrCat("a", i), {7 + i % 5}, "bf16"});
    c.source.push_back({i, 0, Box::Whole(c.arrays.back().shape)});
    c.target.push_back({i, 2, Box::Whole(c.arrays.back().shape)});
  }
  AddNaiveOperations(c);
  return c;
}

// Several arrays from rows to columns; uneven, sub-byte, and one that every device ends up with.
TestCase RowsToColumns(int hosts, int windows) {
  TestCase c;
  c.hosts = hosts;
  c.windows = windows;
  c.arrays = {{"w", {37, 53}, "f32"},
              {"q", {9, 13}, "s4"},
              {"b", {31}, "bf16"},
              {"p", {5, 3}, "u2"},
              {"s", {}, "f64"}};
  std::vector<int> devices, reversed;
  for (int d = 0; d < hosts * 2; ++d) devices.push_back(d);
  reversed.assign(devices.rbegin(), devices.rend());
  for (const int array : {0, 1, 3}) {
    Append(c.source, Cut(c, array, 0, devices));
    Append(c.target, Cut(c, array, 1, reversed));
  }
  Append(c.source, Cut(c, 2, 0, devices));
  for (const int d : devices) c.target.push_back({2, d, Box::Whole(c.arrays[2].shape)});
  c.source.push_back({4, 1, Box{}});
  for (const int d : devices) c.target.push_back({4, d, Box{}});
  AddNaiveOperations(c);
  return c;
}

TEST_P(MoverTest, RowsBecomeColumnsElementByElement) { Run(RowsToColumns(2, 3)); }

TEST_P(MoverTest, FourHostsInManyWindows) { Run(RowsToColumns(4, 17)); }

TEST_P(MoverTest, OnePieceAndOneBufferAtATimeIsEnough) {
  Run(RowsToColumns(4, 5), {.limits = {.slices_in_flight = 1, .staging_bytes = 1}});
}

TEST_P(MoverTest, LargeBoxesGoInPieces) {
  TestCase c;
  c.windows = 2;
  c.arrays = {{"large", {3001, 5003}, "u8"}};
  Append(c.source, Cut(c, 0, 0, {0, 1, 2, 3}));
  Append(c.target, Cut(c, 0, 1, {2, 3}));
  Append(c.target, Cut(c, 0, 0, {1, 0}));
  AddNaiveOperations(c);
  Run(c, {.limits = {.slices_in_flight = 3, .staging_bytes = 8 << 20}});
  EXPECT_EQ(hosts_[1]->bytes.received(), hosts_[0]->bytes.sent());
  EXPECT_EQ(hosts_[1]->bytes.received() + hosts_[1]->bytes.copied, 3001 * 5003);
}

// Rows of more than a page are sent from their place and received into their place.
TEST_P(MoverTest, LongRowsNeedNoBuffers) {
  if (OnGpus()) GTEST_SKIP() << "GPUs have transit areas";
  TestCase c;
  c.windows = 1;
  c.arrays = {{"rows", {300, 20000}, "u8"}};
  Append(c.source, Cut(c, 0, 0, {0, 1}));
  Append(c.target, Cut(c, 0, 1, {2, 3}));
  AddNaiveOperations(c);
  Run(c);
  TestHost& host = *hosts_[0];
  const auto list = host.Bind(c);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_GT(SlicePlaces::HostBytesFor(*list, {}, /*gathers=*/false), 0);
  EXPECT_EQ(SlicePlaces::HostBytesFor(*list, {}, /*gathers=*/true), 0);
  EXPECT_GT(SlicePlaces::HostBytesFor(*list, {.run_bytes = 20001}, /*gathers=*/true), 0);
}

TEST_P(MoverTest, RelaysPassOnWhatTheOriginSaid) {
  TestCase c;
  c.hosts = 3;
  c.windows = 3;
  c.arrays = {{"r", {1025, 4100}, "u8"}, {"n", {7, 5}, "u4"}};
  const Box all = Box::Whole(c.arrays[0].shape), narrow = Box::Whole(c.arrays[1].shape);
  const planner::Interval first = {0, 60},
                          rest = {60, 140};  // its bits: cut in the midst of a byte
  c.source = {{0, 0, all}, {1, 0, narrow}};
  c.target = {{0, 4, all}, {0, 5, all}, {1, 2, narrow}, {1, 4, narrow}};
  c.operations = {{0, 0, all, 0, 3, Space::kSource, Space::kStaging},
                  {0, 1, narrow, 0, 2, Space::kSource, Space::kTarget, 0, {}, {60}},
                  {1, 0, all, 3, 4, Space::kStaging, Space::kTarget},
                  {1, 1, narrow, 2, 4, Space::kTarget, Space::kTarget, 0, first},
                  {1, 1, narrow, 2, 4, Space::kTarget, Space::kTarget, 0, rest},
                  {2, 0, all, 4, 5, Space::kTarget, Space::kTarget}};
  Run(c);
  EXPECT_EQ(hosts_[2]->bytes.copied, 1025 * 4100);
}

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

// Thousands of equal arrays make one message.
TEST_P(MoverTest, ManySmallStretchesTravelTogether) {
  Run(SmallArrays(3000));
  EXPECT_EQ(hosts_[1]->bytes.chunks_verified, 3000);
}

// Between the pieces of a slice the scratch still has its earlier content, perhaps another job's.
TEST_P(MoverTest, NothingOfTheScratchTravels) {
  if (OnGpus())
    GTEST_SKIP() << "looks into memory of the host; device_conformance_test holds GPUs to it";
  std::vector<std::byte> sent;
  Start(SmallArrays(7), {}, Tap{.sent = &sent});
  TestHost& sender = *hosts_[0];
  for (size_t i = 0; i < sender.source().shards.size(); ++i)
    sender.Write(sender.source(), i, std::vector<std::byte>(sender.source().shards[i].bytes()));
  ASSERT_TRUE(Transfer());
  EXPECT_GT(sent.size(), 7u * 16);
  EXPECT_EQ(std::count(sent.begin(), sent.end(), std::byte{0}), std::ssize(sent));
}

// Host 2 passes on by NCCL what comes to it by a stream. Regression: host 0, which waits for it,
// gave up when the time for a window between GPUs was over.
TEST_P(MoverTest, AWindowBetweenGpusWaitsForASlowStream) {
  if (GetParam() != "mixed") GTEST_SKIP() << "there is one link";
  window_timeout_ = std::chrono::milliseconds(50);
  TestCase c;
  c.hosts = 3;
  c.windows = 2;
  c.arrays = {{"slow", {1025, 41}, "u8"}, {"first", {100}, "u8"}};
  const Box slow = Box::Whole(c.arrays[0].shape), first = Box::Whole(c.arrays[1].shape);
  c.source = {{0, 2, slow}, {1, 4, first}};
  c.target = {{0, 4, slow}, {0, 0, slow}, {1, 0, first}};
  c.operations = {{0, 1, first, 4, 0, Space::kSource, Space::kTarget},
                  {0, 0, slow, 2, 4, Space::kSource, Space::kTarget},
                  {1, 0, slow, 4, 0, Space::kTarget, Space::kTarget}};
  Start(c);
  GrantAll();
  const auto without_host_1 = [&](const auto& done) {
    while (!done()) {
      for (const int host : {0, 2}) hosts_[host]->Turn();
    }
  };
  without_host_1([&] { return hosts_[0]->done_windows == 1; });
  const auto late = std::chrono::steady_clock::now() + 4 * window_timeout_;
  without_host_1([&] { return std::chrono::steady_clock::now() > late; });
  EXPECT_FALSE(hosts_[0]->failure.has_value()) << *hosts_[0]->failure;
  ExpectTransferred();
}

TEST_P(MoverTest, NothingToMoveIsDoneAtOnce) {
  TestCase c;
  c.windows = 0;
  Run(c);
}

TEST_P(MoverTest, WindowsWaitForTheirGrant) {
  Start(RowsToColumns(2, 4));
  ASSERT_TRUE(Transfer(2));
  for (int i = 0; i < 100; ++i) {
    for (auto& host : hosts_) host->Turn();
  }
  EXPECT_EQ(hosts_[0]->done_windows, 2);
  ExpectTransferred();
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

// Host 1 may not begin yet, so host 0 waits for it.
TEST_P(MoverTest, AHostNamesThoseThatItWaitsFor) {
  std::atomic<uint64_t> slices_done = 0;
  Start(RowsToColumns(2, 1), {.slices_done = &slices_done});
  for (auto& host : hosts_) EXPECT_TRUE(host->mover().Waits().ok());
  hosts_[0]->mover().Grant(case_.windows);
  const auto waits = [&] { return GetErrorInfo(hosts_[0]->mover().Waits()); };
  ASSERT_TRUE(Until([&] { return waits().reason == "LINK_STALLED"; }));
  EXPECT_EQ(waits().metadata["receives_from"], "host-1");
  EXPECT_TRUE(hosts_[1]->mover().Waits().ok());
  ASSERT_TRUE(Transfer());
  for (auto& host : hosts_) EXPECT_TRUE(host->mover().Waits().ok());
  EXPECT_GE(slices_done, 4) << "two hosts, a local slice and one of another host at least";
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

// Whenever it happens, at either end, in any window, it is an error of that host that names the
// file.
TEST_P(MoverTest, ATruncatedBufferFailsTheAttemptAndNotTheProcess) {
  if (OnGpus()) GTEST_SKIP() << "files are the host's";
  for (const char* side : {"source", "target"}) {
    for (const int done : {0, 1, 3}) {
      SCOPED_TRACE(absl::StrCat(side, " cut after ", done, " windows"));
      Start(RowsToColumns(2, 3));
      ASSERT_TRUE(Transfer(done));
      TestHost& cut = *hosts_[1];
      const size_t shards = cut.source().files.size();
      for (size_t i = 0; i < shards; ++i) std::filesystem::resize_file(cut.PathOf(side, i), 0);
      const absl::Status status = EndAt(cut, done);
      EXPECT_EQ(GetErrorInfo(status).reason, "BUFFER_TRUNCATED") << status;
      EXPECT_EQ(GetErrorInfo(status).metadata["path"], cut.PathOf(side, 0));
      StopAll();
    }
  }
}

// Cut and grown back. Regression: what was read then came as zeros, and made
// the pages again, so that nothing was missing afterwards.
TEST_P(MoverTest, ABufferThatWasCutAndGrownBackFailsTheAttempt) {
  if (OnGpus()) GTEST_SKIP() << "files are the host's";
  for (const std::string side : {"source", "target"}) {
    for (const int done : {0, 1, 3}) {
      for (const bool pages_come_back : {false, true}) {
        SCOPED_TRACE(absl::StrCat(side, " cut after ", done, " windows", pages_come_back));
        Start(RowsToColumns(2, 3));
        ASSERT_TRUE(Transfer(done));
        CutAndGrow(*hosts_[1], side, pages_come_back);
        const absl::Status status = EndAt(*hosts_[1], done);
        const std::string modified = side == "source" ? "SOURCE_MODIFIED" : "TARGET_MODIFIED";
        EXPECT_EQ(GetErrorInfo(status).reason, pages_come_back ? modified : "BUFFER_TRUNCATED")
            << status;
        StopAll();
      }
    }
  }
}

// As where the kernel has no more watches to give.
TEST_P(MoverTest, AHoleIsFoundRightBeforeTheFirstReadingAndIsNotFilled) {
  if (OnGpus()) GTEST_SKIP() << "files are the host's";
  TestCase c = RowsToColumns(2, 3);
  c.watched = false;
  Start(c);
  TestHost& cut = *hosts_[1];
  CutAndGrow(cut, "source", false);
  GrantAll();
  ASSERT_TRUE(Until([&] { return cut.failure.has_value(); }));
  EXPECT_EQ(GetErrorInfo(*cut.failure).reason, "BUFFER_TRUNCATED") << *cut.failure;
  for (size_t i = 0; i < cut.source().files.size(); ++i)
    EXPECT_FALSE(cut.source().files[i].CheckWhole().ok()) << cut.PathOf("source", i);
}

TEST_P(MoverTest, WhoOpensASourceDoesNotFailTheAttempt) {
  if (OnGpus()) GTEST_SKIP() << "files are the host's";
  Start(RowsToColumns(2, 3));
  TestHost& host = *hosts_[1];
  for (int until = 1; until <= 3; ++until) {
    for (size_t i = 0; i < host.source().files.size(); ++i)
      EXPECT_TRUE(MappedFile::Open(host.PathOf("source", i), 1).ok());
    for (auto& each : hosts_) each->mover().Grant(until);
    ASSERT_TRUE(Until([&] { return All([&](TestHost& h) { return h.done_windows == until; }); }));
  }
  ExpectVerified();
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

INSTANTIATE_TEST_SUITE_P(Transports, MoverTest,
                         ::testing::Values("memory", "tcp", "tcp_in_runs", "ucx", "nccl", "mixed"),
                         [](const auto& info) { return info.param; });

// What BindMoves() must refuse, each with an error of its own.
class BindTest : public ::testing::Test {
 protected:
  BindTest() {
    case_.arrays = {{"a", {8}, "u8"}};
    case_.windows = 2;
    case_.source = {{0, 0, Box{{{0, 8}}}}};
    case_.target = {{0, 2, Box{{{0, 8}}}}};
  }
  absl::Status Bind(int host) {
    MemoryFabric fabric;
    return TestHost(case_, host, fabric.NewTransport("x"), {}).Bind(case_).status();
  }
  TestCase case_;
  const Box box_{{{0, 8}}};
};

TEST_F(BindTest, ProgramsThatDoNotFitTheState) {
  case_.operations = {{0, 0, box_, 0, 2}};
  EXPECT_TRUE(Bind(0).ok());
  EXPECT_TRUE(Bind(1).ok());
  case_.operations = {{0, 0, box_, 1, 2}};
  EXPECT_EQ(GetErrorInfo(Bind(0)).metadata["why"], "is in no source shard");
  case_.operations = {{0, 0, box_, 0, 3}};
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["why"], "is in no target shard");
  case_.operations = {{0, 0, box_, 0, 2, Space::kStaging, Space::kTarget}};
  EXPECT_EQ(GetErrorInfo(Bind(0)).metadata["why"], "was not brought before");
  case_.operations = {{0, 0, box_, 0, 2}, {0, 0, box_, 2, 2, Space::kTarget, Space::kTarget}};
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["why"], "is passed on in the window it comes in");
  case_.operations[1].window = 1;
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["why"], "is brought twice");
}

// Target memory that no move fills would show its earlier content.
TEST_F(BindTest, AProgramThatLeavesAShardUnfilledIsRefused) {
  case_.operations = {{0, 0, Box{{{0, 7}}}, 0, 2}};
  EXPECT_TRUE(Bind(0).ok());
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["filled_bits"], "56");
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["bits"], "64");
}

// The stretches have as many bits as the shard, but bring some twice and others never.
TEST_F(BindTest, AProgramWhoseStretchesOverlapIsRefused) {
  case_.operations = {{0, 0, box_, 0, 2, Space::kSource, Space::kTarget, 0, {0, 32}},
                      {1, 0, box_, 0, 2, Space::kSource, Space::kTarget, 0, {16, 48}}};
  EXPECT_TRUE(Bind(0).ok());
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["why"], "is brought twice");
  case_.operations = {{0, 0, Box{{{0, 4}}}, 0, 2}, {0, 0, Box{{{2, 6}}}, 0, 2}};
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["why"], "is on two tapes");
}

TEST_F(BindTest, RelaysPassOnInALaterWindow) {
  case_.hosts = 3;
  case_.target = {{0, 4, box_}};
  case_.operations = {{0, 0, box_, 0, 2, Space::kSource, Space::kStaging},
                      {0, 0, box_, 2, 4, Space::kStaging, Space::kTarget}};
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["why"], "is passed on in the window it comes in");
  case_.operations[1].window = 1;
  EXPECT_TRUE(Bind(1).ok());
}

// Values of two subgroups have the same array and box: each leaves from where it was staged.
TEST_F(BindTest, StagedValuesOfOtherKeysLieApart) {
  case_.hosts = 3;
  case_.source = {{0, 0, box_}, {0, 1, box_}};
  case_.target = {{0, 4, box_}, {0, 5, box_}};
  case_.operations = {{0, 0, box_, 0, 2, Space::kSource, Space::kStaging, 7},
                      {0, 0, box_, 1, 2, Space::kSource, Space::kStaging, 8},
                      {1, 0, box_, 2, 4, Space::kStaging, Space::kTarget, 7},
                      {1, 0, box_, 2, 5, Space::kStaging, Space::kTarget, 8}};
  MemoryFabric fabric;
  const auto list = TestHost(case_, 1, fabric.NewTransport("x"), {}).Bind(case_);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->moves[2].source, list->moves[0].target);
  EXPECT_EQ(list->moves[3].source, list->moves[1].target);
  case_.operations[3].tape = 9;
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["why"], "was not brought before");
}

}  // namespace
}  // namespace remesh::worker
