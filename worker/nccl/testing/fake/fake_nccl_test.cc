// SPDX-License-Identifier: Apache-2.0
// The rules of NCCL that the fake enforces. Each has a test in which breaking it hangs, ends the
// process, or puts wrong bytes into memory.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "worker/nccl/testing/fake/fake_gpu_streams.h"
#include "worker/nccl/testing/fake_library.h"
#include "worker/nccl/testing/host_stream.h"

namespace remesh::worker {
namespace {

using nccl::Result;
using std::chrono::milliseconds;

constexpr auto kPatience = std::chrono::seconds(20);
constexpr auto kHang = milliseconds(100);  // anything that works is faster
constexpr size_t kBytes = 200000;          // more than a channel holds at once

bool Within(std::chrono::nanoseconds time, const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (!done() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  return done();
}

// A rank with a device of its own.
struct Rank {
  nccl::Comm* comm = nullptr;
  HostStream stream{2 * kBytes};
  FakeGpuStreams streams{{&stream.stream()}};

  std::byte* at(size_t offset = 0) { return stream.memory().data() + offset; }
  std::byte& byte(size_t offset = 0) { return stream.host()[offset]; }
};

// Ranks in one process; `groups` says which are initialised together, as one host's are.
class FakeNcclTest : public testing::Test {
 protected:
  using Lists = std::vector<std::vector<int>>;

  ~FakeNcclTest() override { AbortAll(); }

  void Init(int ranks, const Lists& groups) {
    nccl::UniqueId id;
    ASSERT_EQ(api_.get_unique_id(&id), Result::kSuccess);
    for (int i = 0; i < ranks; ++i) ranks_.push_back(std::make_unique<Rank>());
    for (const auto& group : groups) {
      api_.group_start();
      for (int rank : group) InitRank(ranks, id, rank);
      EXPECT_EQ(api_.group_end(), Result::kInProgress);
    }
  }
  void InitRank(int ranks, const nccl::UniqueId& id, int rank) {
    nccl::Config config;
    config.blocking = 0;
    EXPECT_EQ(api_.init_rank(&ranks_[rank]->comm, ranks, id, rank, &config), Result::kInProgress);
  }
  void InitReady(int ranks, const Lists& groups) {
    Init(ranks, groups);
    for (int i = 0; i < ranks; ++i) ASSERT_TRUE(Ready(i));
  }

  Result State(int rank) {
    Result state;
    EXPECT_EQ(api_.get_async_error(ranks_[rank]->comm, &state), Result::kSuccess);
    return state;
  }
  bool Ready(int rank, std::chrono::nanoseconds time = kPatience) {
    return Within(time, [&] { return State(rank) == Result::kSuccess; });
  }

  Result Send(int from, int to, size_t bytes = kBytes) {
    Rank& rank = *ranks_[from];
    return api_.send(rank.at(), bytes, nccl::kUint8, to, rank.comm, rank.streams.Handle(0));
  }
  // Receives into the memory behind what the rank sends.
  Result Receive(int at, int from, size_t bytes = kBytes) {
    Rank& rank = *ranks_[at];
    return api_.receive(rank.at(kBytes), bytes, nccl::kUint8, from, rank.comm,
                        rank.streams.Handle(0));
  }
  void Fill(int rank, int value) { std::memset(ranks_[rank]->stream.host().data(), value, kBytes); }
  int Got(int rank, size_t offset = 0) {
    return static_cast<int>(ranks_[rank]->byte(kBytes + offset));
  }

  // Whether the rank's stream gets through its work.
  bool Ends(int rank, std::chrono::nanoseconds time = kPatience) {
    const auto event = *ranks_[rank]->streams.Record(0);
    return Within(time, [&] { return *ranks_[rank]->streams.Passed(0, event); });
  }
  bool Hangs(int rank) { return !Ends(rank, kHang); }

  void Abort(int rank) { api_.abort(std::exchange(ranks_[rank]->comm, nullptr)); }
  void AbortAll() {
    for (auto& rank : ranks_) {
      if (rank->comm != nullptr) api_.abort(std::exchange(rank->comm, nullptr));
    }
  }
  // Calls a function that the link does not use.
  Result Call(const char* name, int rank) {
    void* library = dlopen(api_.library.c_str(), RTLD_NOW);
    auto* function = reinterpret_cast<Result (*)(nccl::Comm*)>(dlsym(library, name));
    return function(ranks_[rank]->comm);
  }

  const NcclApi& api_ = FakeNccl();
  std::vector<std::unique_ptr<Rank>> ranks_;
};

using FakeNcclDeathTest = FakeNcclTest;

TEST_F(FakeNcclTest, ExchangesBothWaysAtOnce) {
  InitReady(2, {{0}, {1}});
  Fill(0, 7);
  Fill(1, 9);
  for (int rank : {0, 1}) {
    api_.group_start();
    EXPECT_EQ(Send(rank, 1 - rank), Result::kSuccess);
    EXPECT_EQ(Receive(rank, 1 - rank), Result::kSuccess);
    EXPECT_EQ(api_.group_end(), Result::kInProgress);
  }
  for (int rank : {0, 1}) ASSERT_TRUE(Ready(rank) && Ends(rank));
  EXPECT_EQ(Got(0), 9);
  EXPECT_EQ(Got(1, kBytes - 1), 7);
}

TEST_F(FakeNcclTest, PairsSendsAndReceivesInOrder) {
  InitReady(2, {{0}, {1}});
  for (int value : {1, 2, 3}) {
    Fill(0, value);
    Send(0, 1, 1000);
    Receive(1, 0, 1000);
    ASSERT_TRUE(Ready(0) && Ready(1) && Ends(0) && Ends(1));
    EXPECT_EQ(Got(1, 999), value);
  }
}

TEST_F(FakeNcclTest, InitWaitsForAllRanks) {
  Init(3, {{0}, {1}});
  EXPECT_FALSE(Ready(0, kHang));
  EXPECT_NE(Send(0, 1), Result::kSuccess) << "it is not ready";
}

TEST_F(FakeNcclTest, ASendEndsOnlyAgainstItsReceive) {
  InitReady(2, {{0}, {1}});
  Send(0, 1, 1);
  Receive(1, 0, 1);
  ASSERT_TRUE(Ready(0) && Ready(1) && Ends(0) && Ends(1)) << "so they are connected";
  Send(0, 1, 1);
  ASSERT_TRUE(Ready(0));
  EXPECT_TRUE(Hangs(0)) << "small as it is";
  Receive(1, 0, 1);
  EXPECT_TRUE(Ready(1) && Ends(0) && Ends(1));
}

TEST_F(FakeNcclTest, AGroupIsDoneAsAWhole) {
  InitReady(3, {{0}, {1}, {2}});
  api_.group_start();
  Send(0, 1);
  Send(0, 2);
  api_.group_end();
  Receive(1, 0);
  Receive(2, 0);
  ASSERT_TRUE(Ready(0) && Ends(0));  // and everybody is connected
  api_.group_start();
  Send(0, 1);
  Send(0, 2);
  api_.group_end();
  Receive(1, 0);
  ASSERT_TRUE(Ready(0) && Ready(1) && Ends(1));
  EXPECT_TRUE(Hangs(0)) << "its other receiver has not begun";
}

TEST_F(FakeNcclTest, AGroupTooLargeForAKernelRunsSeveral) {
  constexpr int kRanks = 6;
  InitReady(kRanks, {{0}, {1}, {2}, {3}, {4}, {5}});
  void* library = dlopen(api_.library.c_str(), RTLD_NOW);
  const auto kernels = reinterpret_cast<int64_t (*)()>(dlsym(library, "remeshFakeNcclKernels"));
  // All to all: kRanks - 1 rounds, of which three take four batches, as neighbours share a channel.
  setenv("REMESH_FAKE_NCCL_BATCHES", "4", 1);
  const int64_t before = kernels();
  for (int rank = 0; rank < kRanks; ++rank) {
    Fill(rank, 10 + rank);
    api_.group_start();
    for (int other = 0; other < kRanks; ++other) {
      if (other != rank) Send(rank, other, 1000);
    }
    for (int other = 0; other < kRanks; ++other) {
      if (other != rank) Receive(rank, other, 1000);
    }
    EXPECT_EQ(api_.group_end(), Result::kInProgress);
  }
  for (int rank = 0; rank < kRanks; ++rank) ASSERT_TRUE(Ready(rank) && Ends(rank));
  unsetenv("REMESH_FAKE_NCCL_BATCHES");
  EXPECT_EQ(kernels() - before, 2 * kRanks);
}

TEST_F(FakeNcclTest, KernelsComeToTheStreamAfterGroupEnd) {
  setenv("REMESH_FAKE_NCCL_DELAY_US", "50000", 1);
  InitReady(2, {{0}, {1}});
  unsetenv("REMESH_FAKE_NCCL_DELAY_US");
  int early = 0;
  for (int value = 1; value <= 5; ++value) {
    Fill(0, value);
    Send(0, 1);
    Receive(1, 0);
    ASSERT_TRUE(Ends(1));
    early += State(1) == Result::kInProgress;
    ASSERT_TRUE(Ready(0) && Ready(1) && Ends(0) && Ends(1));
    EXPECT_EQ(Got(1), value);
  }
  EXPECT_GT(early, 0) << "an event recorded right after the group says nothing about it";
}

TEST_F(FakeNcclTest, NothingElseMayStartBeforeTheGroupHas) {
  InitReady(2, {{0}, {1}});
  EXPECT_EQ(Send(0, 1), Result::kInProgress);
  EXPECT_EQ(Send(0, 1), Result::kInvalidArgument) << "its peer is not there to connect";
}

TEST_F(FakeNcclTest, TheFirstGroupWaitsForItsPeersOnTheHost) {
  InitReady(2, {{0}, {1}});
  Send(0, 1);
  EXPECT_FALSE(Ready(0, kHang));
  Receive(1, 0);
  EXPECT_TRUE(Ready(0) && Ready(1) && Ends(1));
}

TEST_F(FakeNcclTest, AGroupNeedNotHaveAllLocalRanks) {
  InitReady(3, {{0, 1}, {2}});
  Send(0, 2);
  Receive(2, 0);
  EXPECT_TRUE(Ready(0) && Ready(2) && Ends(0) && Ends(2));
}

TEST_F(FakeNcclTest, LaunchModeGroupWaitsForAllLocalRanks) {
  InitReady(3, {{0, 1}, {2}});
  setenv("NCCL_LAUNCH_MODE", "GROUP", 1);
  Send(0, 2);
  Receive(2, 0);
  EXPECT_FALSE(Ready(0, kHang));
  Send(1, 2);
  ASSERT_TRUE(Ready(2));
  Receive(2, 1);
  EXPECT_TRUE(Ready(0) && Ready(1) && Ends(2));
  unsetenv("NCCL_LAUNCH_MODE");
}

TEST_F(FakeNcclTest, SizesThatDifferAreNoError) {
  InitReady(2, {{0}, {1}});
  Fill(0, 1);
  Send(0, 1, 1000);
  Receive(1, 0, 1001);
  ASSERT_TRUE(Ready(0) && Ready(1));
  EXPECT_TRUE(Hangs(1)) << "for a byte that does not come";
}

TEST_F(FakeNcclTest, BytesThatWereNotTakenAreTakenForTheNextMessage) {
  InitReady(2, {{0}, {1}});
  Fill(0, 1);
  Send(0, 1, 1001);
  Receive(1, 0, 1000);
  ASSERT_TRUE(Ready(0) && Ready(1) && Ends(1));
  EXPECT_TRUE(Hangs(0));
  Receive(1, 0, 1);
  ASSERT_TRUE(Ready(1) && Ends(1) && Ends(0));
  EXPECT_EQ(Got(1), 1) << "a byte of the first message";
}

TEST_F(FakeNcclTest, GroupsInDifferentOrderHang) {
  InitReady(2, {{0}, {1}});
  auto both = [&](bool send_first) {
    const int rank = send_first ? 0 : 1;
    // Rank 0 sends and then receives; so does rank 1, where it should have received first.
    Send(rank, 1 - rank);
    EXPECT_TRUE(Ready(rank));
    Receive(rank, 1 - rank);
  };
  for (int rank : {0, 1}) {  // connects, as otherwise the first group waits on the host
    api_.group_start();
    Send(rank, 1 - rank, 1);
    Receive(rank, 1 - rank, 1);
    api_.group_end();
  }
  ASSERT_TRUE(Ready(0) && Ready(1) && Ends(0) && Ends(1));
  both(true);
  both(false);
  EXPECT_TRUE(Hangs(0) && Hangs(1));
}

TEST_F(FakeNcclTest, NothingStopsBeforeAllLocalRanksAreAborted) {
  InitReady(3, {{0, 1}, {2}});
  Send(0, 2);
  Receive(2, 0);
  ASSERT_TRUE(Ready(0) && Ready(2) && Ends(0));
  Send(0, 2);
  ASSERT_TRUE(Ready(0));
  Abort(0);
  EXPECT_TRUE(Hangs(0)) << "the other rank of the host still lives";
  Abort(1);
  EXPECT_TRUE(Ends(0));
}

TEST_F(FakeNcclTest, AbortEndsInitThatWaits) {
  Init(2, {{0}});
  EXPECT_FALSE(Ready(0, kHang));
  Abort(0);
}

TEST_F(FakeNcclTest, FinalizeWaitsForEverForARankThatWasAborted) {
  InitReady(2, {{0}, {1}});
  Abort(1);
  EXPECT_EQ(Call("ncclCommFinalize", 0), Result::kInProgress);
  EXPECT_FALSE(Ready(0, kHang));
}

TEST_F(FakeNcclTest, FinalizeAndDestroyEndAWorldInGoodOrder) {
  InitReady(2, {{0, 1}});
  for (int rank : {0, 1}) Call("ncclCommFinalize", rank);
  for (int rank : {0, 1}) ASSERT_TRUE(Ready(rank));
  for (int rank : {0, 1}) {
    EXPECT_EQ(Call("ncclCommDestroy", rank), Result::kSuccess);
    ranks_[rank]->comm = nullptr;
  }
}

// The parent is rank 0; the child, a process of its own, greets as rank 1 and is then killed.
TEST_F(FakeNcclTest, AfterAPeersDeathNothingMovesUntilAbort) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    // A fork has none of the streams' threads, so the child starts the program again.
    dup2(pipes[0], 0);
    execl("/proc/self/exe", "fake_nccl_peer", "--peer", nullptr);
    _exit(1);
  }
  nccl::UniqueId id;
  ASSERT_EQ(api_.get_unique_id(&id), Result::kSuccess);
  ASSERT_EQ(write(pipes[1], &id, sizeof(id)), ssize_t{sizeof(id)});
  ranks_.push_back(std::make_unique<Rank>());
  InitRank(2, id, 0);
  ASSERT_TRUE(Ready(0));
  Receive(0, 1);
  ASSERT_TRUE(Ready(0) && Ends(0));
  EXPECT_EQ(Got(0, kBytes - 1), 42);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  Receive(0, 1);
  ASSERT_TRUE(Ready(0));
  EXPECT_TRUE(Hangs(0));
  EXPECT_EQ(State(0), Result::kSuccess) << "no error says so";
  Abort(0);
  EXPECT_TRUE(Ends(0));
}

int RunPeer() {
  const NcclApi& api = FakeNccl();
  nccl::UniqueId id;
  if (read(0, &id, sizeof(id)) != ssize_t{sizeof(id)}) return 1;
  alarm(60);  // in case it is not killed
  Rank rank;
  nccl::Config config;
  config.blocking = 0;
  api.init_rank(&rank.comm, 2, id, 1, &config);
  Result state = Result::kInProgress;
  while (state != Result::kSuccess) api.get_async_error(rank.comm, &state);
  std::memset(rank.stream.host().data(), 42, kBytes);
  api.send(rank.at(), kBytes, nccl::kUint8, 0, rank.comm, rank.streams.Handle(0));
  while (true) pause();
}

TEST_F(FakeNcclDeathTest, TwoSendsToOnePeerInAGroup) {
  InitReady(2, {{0}, {1}});
  auto twice = [&] {
    api_.group_start();
    Send(0, 1, 1);
    Send(0, 1, 1);
    api_.group_end();
  };
  EXPECT_DEATH(twice(), "two sends or two receives with one peer in one group");
}

TEST_F(FakeNcclDeathTest, InitBesideOtherCalls) {
  InitReady(2, {{0}, {1}});
  auto mixed = [&] {
    nccl::UniqueId id;
    api_.get_unique_id(&id);
    nccl::Config config;
    config.blocking = 0;
    nccl::Comm* comm = nullptr;
    api_.group_start();
    Send(0, 1, 1);
    api_.init_rank(&comm, 2, id, 0, &config);
    api_.group_end();
  };
  EXPECT_DEATH(mixed(), "init and other calls in one group");
}

TEST_F(FakeNcclDeathTest, UseAfterAbort) {
  InitReady(2, {{0}, {1}});
  nccl::Comm* comm = ranks_[0]->comm;
  Abort(0);
  EXPECT_DEATH(api_.abort(comm), "does not exist any more");
}

TEST_F(FakeNcclDeathTest, UseAfterAFailure) {
  auto again = [&] {
    setenv("REMESH_FAKE_NCCL_FAILING_GROUP", "1", 1);
    InitReady(2, {{0}, {1}});
    Send(0, 1, 1);
    Receive(1, 0, 1);
    Within(kPatience, [&] { return State(0) == Result::kRemoteError; });
    Send(0, 1, 1);
  };
  EXPECT_DEATH(again(), "has failed is used again");
}

TEST_F(FakeNcclDeathTest, DestroyAfterAbort) {
  InitReady(2, {{0, 1}});
  Abort(0);
  EXPECT_DEATH(Call("ncclCommDestroy", 1), "destroy after abort");
}

TEST_F(FakeNcclDeathTest, ABlockingCommunicator) {
  nccl::UniqueId id;
  api_.get_unique_id(&id);
  nccl::Config config;
  nccl::Comm* comm = nullptr;
  EXPECT_DEATH(api_.init_rank(&comm, 2, id, 0, &config), "blocking");
}

TEST_F(FakeNcclDeathTest, MemoryOfAnotherDevice) {
  auto exchange = [&] {
    InitReady(2, {{0}, {1}});
    Rank& rank = *ranks_[0];
    api_.send(ranks_[1]->at(), 1, nccl::kUint8, 1, rank.comm, rank.streams.Handle(0));
    Receive(1, 0, 1);
    Ends(1);
    Ready(0);
    Ends(0);
  };
  EXPECT_DEATH(exchange(), "not its stream's device's");
}

}  // namespace
}  // namespace remesh::worker

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--peer") == 0) return remesh::worker::RunPeer();
  // Death tests start this program again: a fork would have none of the streams' threads.
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
