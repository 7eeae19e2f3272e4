// SPDX-License-Identifier: Apache-2.0
// What worker/transport/transport.h asks of every link, of one that starts windows at once: the
// suite of the others posts messages one by one, which NCCL cannot take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/conformance/nccl_mesh.h"

namespace remesh::worker::conformance {
namespace {

using absl::StatusCode;
using std::chrono::milliseconds;
using testing::ElementsAre;

NcclOptions Within(milliseconds window, milliseconds connect = milliseconds(20000)) {
  NcclOptions options;
  options.window_timeout = window;
  options.connect_timeout = connect;
  options.connect_timeout_per_rank = milliseconds(0);
  return options;
}

// A message between every two devices, same host or not, in every window.
std::vector<NcclMessage> AllPairs(int devices, int windows, size_t max_bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<NcclMessage> messages;
  for (int window = 0; window < windows; ++window) {
    for (int from = 0; from < devices; ++from) {
      for (int to = 0; to < devices; ++to) {
        if (from != to) messages.push_back({window, from, to, 1 + random() % max_bytes});
      }
    }
  }
  return messages;
}

std::string ReasonOf(const Outcome& outcome) { return GetErrorInfo(outcome.status).reason; }

// With delays inside NCCL of up to so many microseconds.
class NcclConformance : public testing::TestWithParam<int> {
 protected:
  NcclConformance() {
    setenv("REMESH_FAKE_NCCL_DELAY_US", absl::StrCat(GetParam()).c_str(), 1);
    setenv("REMESH_FAKE_NCCL_SEED", absl::StrCat(GetParam()).c_str(), 1);
  }
  ~NcclConformance() override { unsetenv("REMESH_FAKE_NCCL_DELAY_US"); }
};
INSTANTIATE_TEST_SUITE_P(Fake, NcclConformance, testing::Values(0, 500, 5000),
                         [](const auto& info) { return absl::StrCat("Delay", info.param); });

TEST_P(NcclConformance, MovesEveryPairsBytesInEveryWindow) {
  NcclDevices devices(3, 2);
  NcclMesh mesh(devices, AllPairs(6, 5, 70000, 1), 5);
  mesh.OpenAll();
  mesh.PostAll();
  ASSERT_TRUE(mesh.Finish());
  for (int host = 0; host < 3; ++host) {
    EXPECT_THAT(mesh.codes(host), ElementsAre(StatusCode::kOk));
    EXPECT_THAT(mesh.windows_ended(host), ElementsAre(0, 1, 2, 3, 4));
  }
  EXPECT_TRUE(mesh.AllArrived());
}

TEST_P(NcclConformance, MovesAMessageOfAnySize) {
  NcclDevices devices(2, 1);
  std::vector<NcclMessage> messages;
  for (const size_t bytes : {1u, 15u, 4096u, 65536u, 65537u, 1u << 20})
    messages.push_back({static_cast<int>(messages.size()), 0, 1, bytes});
  NcclMesh mesh(devices, messages, 6);
  mesh.OpenAll();
  mesh.PostAll();
  ASSERT_TRUE(mesh.Finish());
  EXPECT_TRUE(mesh.AllArrived());
}

TEST_P(NcclConformance, StartsWindowsInOrderHoweverTheyArePosted) {
  NcclDevices devices(2, 2);
  NcclMesh mesh(devices, AllPairs(4, 4, 30000, 2), 4);
  mesh.OpenAll();
  for (int window = 3; window >= 0; --window) {
    mesh.Post(0, window);
    mesh.Post(1, 3 - window);
    mesh.ProgressFor(milliseconds(2));
  }
  ASSERT_TRUE(mesh.Finish());
  for (int host : {0, 1}) EXPECT_THAT(mesh.windows_ended(host), ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(mesh.AllArrived());
}

TEST_P(NcclConformance, PassesOverEmptyWindowsAndHostsWithoutEntries) {
  NcclDevices devices(3, 2);
  // Window 1 is empty, and host 2 has nothing in 0 and 3. Device 1 has nothing at all.
  NcclMesh mesh(devices,
                {{0, 0, 2, 5000}, {0, 3, 0, 100}, {2, 4, 0, 30000}, {2, 2, 5, 7}, {3, 2, 0, 9000}},
                5);
  mesh.OpenAll();
  mesh.PostAll();
  ASSERT_TRUE(mesh.Finish());
  EXPECT_THAT(mesh.windows_ended(0), ElementsAre(0, 2, 3));
  EXPECT_THAT(mesh.windows_ended(2), ElementsAre(2));
  EXPECT_TRUE(mesh.AllArrived());
}

TEST_P(NcclConformance, OneHostExchangesAmongItsOwnDevices) {
  NcclDevices devices(1, 4);
  NcclMesh mesh(devices, AllPairs(4, 3, 50000, 3), 3);
  mesh.OpenAll();
  mesh.PostAll();
  ASSERT_TRUE(mesh.Finish());
  EXPECT_TRUE(mesh.AllArrived());
}

TEST_P(NcclConformance, SeveralHostsMakeTheIds) {
  NcclDevices devices(3, 2);
  NcclOptions options;
  options.ranks_per_id = 2;
  NcclMesh mesh(devices, AllPairs(6, 1, 1000, 4), 1, options);
  mesh.OpenAll();
  mesh.PostAll();
  ASSERT_TRUE(mesh.Finish());
  EXPECT_TRUE(mesh.AllArrived());
}

TEST_P(NcclConformance, CallbacksMayPostTheNextWindow) {
  NcclDevices devices(2, 1);
  NcclMesh mesh(devices, AllPairs(2, 6, 20000, 5), 6);
  mesh.OpenAll();
  mesh.on_window = [&](int host, int window) {
    if (window < 5) mesh.Post(host, window + 1);
  };
  for (int host : {0, 1}) mesh.Post(host, 0);
  ASSERT_TRUE(mesh.ProgressUntil(
      [&] { return mesh.windows_ended(0).size() == 6 && mesh.windows_ended(1).size() == 6; }));
  EXPECT_TRUE(mesh.AllArrived());
}

TEST_P(NcclConformance, WaitsForAHostThatIsSlow) {
  NcclDevices devices(2, 2);
  NcclMesh mesh(devices, AllPairs(4, 2, 20000, 6), 2);
  mesh.Open(0);
  mesh.Post(0, 0);
  mesh.ProgressFor(milliseconds(30));
  mesh.Open(1);
  mesh.ProgressFor(milliseconds(30));
  mesh.Post(0, 1);
  EXPECT_TRUE(mesh.windows_ended(0).empty());
  for (int window : {0, 1}) {
    mesh.Post(1, window);
    mesh.ProgressFor(milliseconds(30));
  }
  ASSERT_TRUE(mesh.Finish());
  EXPECT_TRUE(mesh.AllArrived());
}

TEST_P(NcclConformance, AttemptsFollowEachOther) {
  NcclDevices devices(2, 2);
  for (uint32_t attempt = 0; attempt < 3; ++attempt) {
    NcclMesh mesh(devices, AllPairs(4, 2, 20000, attempt), 2);
    mesh.OpenAll();
    mesh.PostAll();
    if (attempt == 1) continue;  // aborted in the middle
    ASSERT_TRUE(mesh.Finish());
    EXPECT_TRUE(mesh.AllArrived());
  }
}

// At ever later moments: every operation ends once, and after quiesced() no byte moves any more.
TEST_P(NcclConformance, AbortEndsWhatIsInFlight) {
  NcclDevices devices(2, 2);
  for (int after : {0, 1, 3, 10, 30}) {
    SCOPED_TRACE(absl::StrCat("after ", after, " ms"));
    NcclMesh mesh(devices, AllPairs(4, 6, 60000, 7), 6);
    mesh.OpenAll();
    mesh.PostAll();
    mesh.ProgressFor(milliseconds(after));
    mesh.Abort(1);
    ASSERT_TRUE(mesh.Quiesce(1));
    const auto before = mesh.Memory(2);
    for (const Outcome* outcome : mesh.outcomes(1)) {
      ASSERT_EQ(outcome->calls, 1);
      EXPECT_TRUE(outcome->ok() || outcome->code() == StatusCode::kCancelled) << outcome->status;
    }
    ASSERT_TRUE(mesh.Finish(0));
    for (const Outcome* outcome : mesh.outcomes(0)) {
      EXPECT_TRUE(outcome->ok() || outcome->code() == StatusCode::kUnavailable) << outcome->status;
    }
    EXPECT_TRUE(mesh.Memory(2) == before);
    mesh.Abort(1);  // again: nothing happens
  }
}

TEST(NcclFailure, APeersDeathEndsEverythingUnavailableAndNamesIt) {
  NcclDevices devices(3, 2);
  NcclMesh mesh(devices, AllPairs(6, 2, 20000, 8), 2);
  mesh.OpenAll();
  for (int host = 0; host < 3; ++host) mesh.Post(host, 0);
  ASSERT_TRUE(mesh.Finish());
  for (int host : {0, 1}) mesh.Post(host, 1);
  mesh.ProgressFor(milliseconds(20));
  mesh.Kill(2);
  for (int host : {0, 1}) {
    ASSERT_TRUE(mesh.Finish(host));
    EXPECT_THAT(mesh.codes(host), ElementsAre(StatusCode::kOk, StatusCode::kUnavailable));
    EXPECT_THAT(mesh.outcomes(host).back()->status.message(), testing::HasSubstr("host2"));
  }
}

TEST(NcclFailure, AnAbortIsAnEndForThePeers) {
  NcclDevices devices(2, 1);
  NcclMesh mesh(devices, AllPairs(2, 2, 20000, 9), 2);
  mesh.OpenAll();
  mesh.Post(0, 0);
  mesh.ProgressFor(milliseconds(20));
  mesh.Abort(1);
  ASSERT_TRUE(mesh.Finish(0));
  EXPECT_THAT(mesh.codes(0), ElementsAre(StatusCode::kUnavailable));
  // What is posted later ends the same way; what is posted after Abort() is cancelled.
  mesh.Post(0, 1);
  mesh.Post(1, 1);
  ASSERT_TRUE(mesh.Finish());
  EXPECT_THAT(mesh.codes(0), ElementsAre(StatusCode::kUnavailable));
  EXPECT_THAT(mesh.codes(1), ElementsAre(StatusCode::kCancelled));
}

TEST(NcclFailure, AbortWhileConnectingCancels) {
  NcclDevices devices(2, 2);
  NcclMesh mesh(devices, AllPairs(4, 2, 20000, 10), 2);
  mesh.Open(0);
  mesh.Post(0, 0);
  mesh.Post(0, 1);
  mesh.ProgressFor(milliseconds(20));
  mesh.Abort(0);
  ASSERT_TRUE(mesh.Quiesce(0));
  EXPECT_THAT(mesh.codes(0), ElementsAre(StatusCode::kCancelled));
}

// All hosts are there, and one does not go on to NCCL: it is aborted while the others wait for it
// inside.
TEST(NcclFailure, AbortWhileNcclConnectsCancels) {
  setenv("REMESH_FAKE_NCCL_DELAY_US", "100000", 1);
  NcclDevices devices(2, 3);
  NcclMesh mesh(devices, AllPairs(6, 1, 1000, 11), 1);
  mesh.OpenAll();
  mesh.PostAll();
  mesh.ProgressFor(milliseconds(20));
  unsetenv("REMESH_FAKE_NCCL_DELAY_US");
  mesh.Abort(1);
  ASSERT_TRUE(mesh.Quiesce(1) && mesh.Finish());
  EXPECT_THAT(mesh.codes(0), ElementsAre(StatusCode::kUnavailable));
  EXPECT_THAT(mesh.codes(1), ElementsAre(StatusCode::kCancelled));
}

TEST(NcclFailure, ATimeOutOfConnectingNamesWhoIsAbsent) {
  NcclDevices devices(3, 1);
  NcclMesh mesh(devices, AllPairs(3, 1, 1000, 12), 1,
                Within(milliseconds(20000), milliseconds(200)));
  mesh.Open(0);
  mesh.Open(2);
  mesh.Post(0, 0);
  ASSERT_TRUE(mesh.Finish(0));
  const Outcome& outcome = *mesh.outcomes(0).front();
  EXPECT_EQ(ReasonOf(outcome), "NCCL_TIMEOUT");
  EXPECT_EQ(GetErrorInfo(outcome.status).metadata.at("absent"), "host1");
}

TEST(NcclFailure, APeerThatStandsStillEndsByTheTimeOut) {
  NcclDevices devices(2, 1);
  NcclMesh mesh(devices, AllPairs(2, 2, 20000, 13), 2, Within(milliseconds(300)));
  mesh.OpenAll();
  for (int host : {0, 1}) mesh.Post(host, 0);
  ASSERT_TRUE(mesh.Finish());
  mesh.Post(0, 1);
  ASSERT_TRUE(mesh.Finish(0));
  EXPECT_EQ(ReasonOf(*mesh.outcomes(0).back()), "NCCL_TIMEOUT");
  EXPECT_EQ(GetErrorInfo(mesh.outcomes(0).back()->status).metadata.at("window"), "1");
}

TEST(NcclFailure, SizesThatDifferEndByTheTimeOut) {
  NcclDevices devices(2, 1);
  for (const size_t awaited : {999u, 1001u}) {
    NcclMesh mesh(devices, {{0, 0, 1, 1000, awaited}, {0, 1, 0, 500}}, 1,
                  Within(milliseconds(300), milliseconds(1000)));
    mesh.OpenAll();
    mesh.PostAll();
    ASSERT_TRUE(mesh.Finish());
    const int hangs = awaited > 1000 ? 1 : 0;  // who waits for bytes, or for someone to take them
    EXPECT_THAT(mesh.codes(hangs), ElementsAre(StatusCode::kUnavailable));
    EXPECT_EQ(ReasonOf(*mesh.outcomes(hangs).front()), "NCCL_TIMEOUT");
  }
}

TEST(NcclFailure, AnAbortThatDoesNotEndIsTold) {
  setenv("REMESH_FAKE_NCCL_ABORT_MS", "300", 1);
  NcclDevices devices(2, 1);
  NcclOptions options;
  options.abort_timeout = milliseconds(50);
  NcclMesh mesh(devices, AllPairs(2, 1, 1000, 14), 1, options);
  mesh.OpenAll();
  mesh.PostAll();
  ASSERT_TRUE(mesh.Finish());
  mesh.Abort(0);
  ASSERT_TRUE(mesh.ProgressUntil([&] { return mesh.stuck(0) > 0; }));
  EXPECT_FALSE(mesh.group(0).quiesced());
  ASSERT_TRUE(mesh.Quiesce(0));
  EXPECT_EQ(mesh.stuck(0), 1);
  unsetenv("REMESH_FAKE_NCCL_ABORT_MS");
}

TEST(NcclFailure, AnErrorOfNcclsEndsEverythingAndIsTold) {
  setenv("REMESH_FAKE_NCCL_FAILING_GROUP", "2", 1);
  NcclDevices devices(2, 2);
  NcclMesh mesh(devices, AllPairs(4, 3, 1000, 17), 3);
  mesh.OpenAll();
  mesh.PostAll();
  ASSERT_TRUE(mesh.Finish());
  unsetenv("REMESH_FAKE_NCCL_FAILING_GROUP");
  for (int host : {0, 1}) {
    EXPECT_THAT(mesh.windows_ended(host), ElementsAre(0, 1, 2));
    const Outcome& last = *mesh.outcomes(host).back();
    EXPECT_EQ(last.code(), StatusCode::kUnavailable);
    EXPECT_EQ(ReasonOf(last), "NCCL_FAILED") << last.status;
    EXPECT_EQ(GetErrorInfo(last.status).metadata.at("result"), "remote process exited");
  }
}

TEST(NcclFailure, AbortEndsACallThatDoesNotReturn) {
  setenv("REMESH_FAKE_NCCL_BLOCKS", "1", 1);
  NcclDevices devices(2, 2);
  NcclOptions options;
  options.abort_timeout = milliseconds(1000);
  NcclMesh mesh(devices, AllPairs(4, 1, 1000, 18), 1, options);
  mesh.OpenAll();
  mesh.Post(0, 0);
  mesh.ProgressFor(milliseconds(50));
  mesh.Abort(0);
  mesh.ProgressFor(milliseconds(50));
  EXPECT_FALSE(mesh.group(0).quiesced()) << "the call was given time to return";
  ASSERT_TRUE(mesh.Quiesce(0));
  EXPECT_THAT(mesh.codes(0), ElementsAre(StatusCode::kCancelled));
  EXPECT_EQ(mesh.stuck(0), 0);
  unsetenv("REMESH_FAKE_NCCL_BLOCKS");
}

TEST(NcclFailure, QuiescedWaitsForWhatElseIsOnTheStreams) {
  NcclDevices devices(2, 1);
  NcclMesh mesh(devices, AllPairs(2, 1, 1000, 16), 1);
  mesh.OpenAll();
  mesh.PostAll();
  ASSERT_TRUE(mesh.Finish());
  devices.device(0).stream().Hold(true);
  mesh.Abort(0);
  mesh.ProgressFor(milliseconds(50));
  EXPECT_FALSE(mesh.group(0).quiesced());
  devices.device(0).stream().Hold(false);
  EXPECT_TRUE(mesh.Quiesce(0));
}

TEST(NcclFailure, OperationsKeepTheirMemoryUntilNothingUsesIt) {
  NcclDevices devices(2, 1);
  NcclMesh mesh(devices, AllPairs(2, 1, 1000, 15), 1);
  mesh.OpenAll();
  devices.device(0).stream().Hold(true);
  mesh.PostAll();
  mesh.ProgressFor(milliseconds(20));
  mesh.Abort(0);
  mesh.ProgressFor(milliseconds(50));
  EXPECT_FALSE(mesh.group(0).quiesced());
  EXPECT_EQ(mesh.outcomes(0).front()->calls, 0) << "its memory is still NCCL's";
  devices.device(0).stream().Hold(false);
  EXPECT_TRUE(mesh.Quiesce(0));
  EXPECT_THAT(mesh.codes(0), ElementsAre(StatusCode::kCancelled));
}

}  // namespace
}  // namespace remesh::worker::conformance
