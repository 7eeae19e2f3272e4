// SPDX-License-Identifier: Apache-2.0
// What does not arrive, and what must have stopped afterwards.
#include "absl/strings/str_cat.h"
#include "tests/conformance/harness.h"

namespace remesh::worker::conformance {
namespace {

using Bytes = std::vector<std::byte>;
using absl::StatusCode;

TEST_P(TransportConformance, OpenRefusesAnUnusableTable) {
  const auto world = GetParam().make();
  Mesh mesh(*world, 2);
  auto refused = [&](int self, std::vector<Peer> table) {
    return mesh.transport(0).Open(self, std::move(table)).status().code() ==
           StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(2, mesh.Table()));
  EXPECT_TRUE(refused(-1, mesh.Table()));
  auto table = mesh.Table();
  table[1].token = "short";
  EXPECT_TRUE(refused(0, table));
  table[1].token = table[0].token;
  EXPECT_TRUE(refused(0, table));
  if (const std::string malformed = world->MalformedAddress(); !malformed.empty()) {
    table = mesh.Table();
    table[1].address = malformed;
    EXPECT_TRUE(refused(0, table));
  }
}

TEST_P(TransportConformance, MessagesForAnotherTokenNeverArrive) {
  const auto world = GetParam().make();
  Mesh mesh(*world, 2);
  auto stale = mesh.Table();
  stale[1].token = "yesterday's one.";
  mesh.Open(0, "g", stale);
  mesh.Open(1, "g", mesh.Table());
  const Bytes small = Pattern(100, 1), large = Pattern(1 << 20, 2);
  Bytes got_small(100), got_large(1 << 20);
  std::vector<Outcome*> receives = {mesh.Receive(1, 0, Tag(1), got_small),
                                    mesh.Receive(1, 0, Tag(2), got_large)};
  std::vector<Outcome*> sends = {mesh.Send(0, 1, Tag(1), small), mesh.Send(0, 1, Tag(2), large)};
  mesh.ProgressTimes(3000);
  for (Outcome* send : sends) EXPECT_FALSE(send->ok());
  for (Outcome* receive : receives) EXPECT_FALSE(receive->ok());
  EXPECT_TRUE(got_small == Bytes(100) && got_large == Bytes(1 << 20));
}

TEST_P(TransportConformance, MessagesFromAnotherTokenNeverArrive) {
  const auto world = GetParam().make();
  Mesh mesh(*world, 2);
  auto stale = mesh.Table();
  stale[0].token = "yesterday's one.";
  mesh.Open(0, "g", stale);
  mesh.Open(1, "g", mesh.Table());
  const Bytes data = Pattern(1 << 20, 2);
  Bytes got(1 << 20);
  Outcome* receive = mesh.Receive(1, 0, Tag(1), got);
  Outcome* send = mesh.Send(0, 1, Tag(1), data);
  ASSERT_TRUE(mesh.Finish({send}));
  EXPECT_EQ(send->code(), StatusCode::kUnavailable) << send->status;
  mesh.ProgressTimes(1000);
  EXPECT_FALSE(receive->ok());
  EXPECT_TRUE(got == Bytes(1 << 20));
}

// Each has ended well, or with `code`.
void ExpectEnded(const std::vector<Outcome*>& outcomes, StatusCode code) {
  for (const Outcome* outcome : outcomes) {
    EXPECT_TRUE(outcome->ok() || outcome->code() == code) << outcome->status;
  }
}

// Aborts at ever later moments: what was in flight ends once, and after quiesced() no byte moves
// any more.
TEST_P(TransportConformance, AbortStopsEverythingInFlight) {
  const auto world = GetParam().make();
  constexpr size_t kBytes = 8 << 20;
  const Bytes data = Pattern(kBytes, 3);
  int salt = 0;
  for (int rounds : {0, 1, 5, 20, 100, 400, 1000}) {
    for (int aborting : {0, 1}) {
      SCOPED_TRACE(absl::StrCat("host ", aborting, " aborts after ", rounds));
      Mesh mesh(*world, 2);
      mesh.OpenAll("g", ++salt);
      std::vector<Bytes> got(4, Bytes(kBytes));
      std::vector<Outcome*> mine, others;
      for (uint32_t i = 0; i < 4; ++i) {
        if (i % 2 == 0)
          (aborting == 1 ? mine : others).push_back(mesh.Receive(1, 0, Tag(i), got[i]));
        (aborting == 0 ? mine : others).push_back(mesh.Send(0, 1, Tag(i), data));
      }
      mesh.ProgressTimes(rounds);
      mesh.Abort(aborting);
      ASSERT_TRUE(mesh.ProgressUntil([&] { return mesh.group(aborting).quiesced(); }));
      ExpectEnded(mine, StatusCode::kCancelled);
      const std::vector<Bytes> before = got;
      ASSERT_TRUE(mesh.Finish(others));
      ExpectEnded(others, StatusCode::kUnavailable);
      mesh.ProgressTimes(200);
      if (aborting == 1) {
        EXPECT_TRUE(got == before);
      }
      Outcome* late = mesh.Send(aborting, 1 - aborting, Tag(99), data);
      ASSERT_TRUE(mesh.Finish({late}));
      EXPECT_EQ(late->code(), StatusCode::kCancelled);
      mesh.Abort(aborting);  // again: nothing happens
    }
  }
}

// Those that are copied on arrival, waiting or not, in both directions.
TEST_P(TransportConformance, AbortStopsManyShortMessages) {
  const auto world = GetParam().make();
  constexpr uint32_t kMessages = 300;  // more than may run ahead
  const Bytes data = Pattern(10000, 3);
  int salt = 0;
  for (int rounds : {0, 2, 10, 50, 150, 400}) {
    for (int aborting : {0, 1}) {
      SCOPED_TRACE(absl::StrCat("host ", aborting, " aborts after ", rounds));
      Mesh mesh(*world, 2);
      mesh.OpenAll("g", ++salt);
      std::vector<Bytes> got(2 * kMessages, Bytes(data.size()));
      std::vector<Outcome*> mine, others;
      for (uint32_t i = 0; i < kMessages; ++i) {
        for (int host : {0, 1}) {
          auto& outcomes = aborting == host ? mine : others;
          outcomes.push_back(mesh.Send(host, 1 - host, Tag(i), data));
          if (i % 3 == 0) continue;  // these are never asked for
          outcomes.push_back(mesh.Receive(host, 1 - host, Tag(i), got[2 * i + host]));
        }
      }
      mesh.ProgressTimes(rounds);
      mesh.Abort(aborting);
      ASSERT_TRUE(mesh.ProgressUntil([&] { return mesh.group(aborting).quiesced(); }));
      ExpectEnded(mine, StatusCode::kCancelled);
      ASSERT_TRUE(mesh.Finish(others));
      ExpectEnded(others, StatusCode::kUnavailable);
    }
  }
}

TEST_P(TransportConformance, GroupsAreIsolated) {
  const auto world = GetParam().make();
  Mesh mesh(*world, 2);
  mesh.OpenAll("kept", 1);
  mesh.OpenAll("aborted", 2);
  const Bytes kept = Pattern(4 << 20, 1), aborted = Pattern(4 << 20, 2);
  Bytes got_kept(4 << 20), got_aborted(4 << 20);
  std::vector<Outcome*> outcomes = {mesh.Send(0, 1, Tag(1), kept, "kept"),
                                    mesh.Receive(1, 0, Tag(1), got_kept, "kept")};
  mesh.Send(0, 1, Tag(1), aborted, "aborted");
  mesh.Receive(1, 0, Tag(1), got_aborted, "aborted");
  mesh.ProgressTimes(10);
  mesh.Abort(1, "aborted");
  ASSERT_TRUE(mesh.Finish(outcomes));
  for (const Outcome* outcome : outcomes) EXPECT_TRUE(outcome->ok()) << outcome->status;
  EXPECT_TRUE(got_kept == kept);
}

TEST_P(TransportConformance, NewAttemptWorksAfterAnAbortedOne) {
  const auto world = GetParam().make();
  Mesh mesh(*world, 2);
  mesh.OpenAll("old", 1);
  const Bytes data = Pattern(1 << 20, 1);
  Bytes sink(1 << 20), got(1 << 20);
  mesh.Send(0, 1, Tag(1), data, "old");
  mesh.Receive(0, 1, Tag(1), sink, "old");
  mesh.ProgressTimes(20);
  mesh.Abort(0, "old");
  mesh.Abort(1, "old");
  mesh.OpenAll("new", 2);
  Outcome* receive = mesh.Receive(1, 0, Tag(1), got, "new");
  ASSERT_TRUE(mesh.Finish({mesh.Send(0, 1, Tag(1), data, "new"), receive}));
  EXPECT_TRUE(receive->ok() && got == data) << receive->status;
}

TEST_P(TransportConformance, UnreachablePeerFailsItsOperations) {
  const auto world = GetParam().make();
  Mesh mesh(*world, 2);
  auto table = mesh.Table();
  table[1].address = world->DeadAddress();
  mesh.Open(0, "g", table);
  const Bytes data = Pattern(100, 1);
  Bytes got(100);
  Outcome* receive = mesh.Receive(0, 1, Tag(1), got);
  Outcome* send = mesh.Send(0, 1, Tag(1), data);
  ASSERT_TRUE(mesh.Finish({send, receive}));
  EXPECT_EQ(send->code(), StatusCode::kUnavailable) << send->status;
  EXPECT_EQ(receive->code(), StatusCode::kUnavailable) << receive->status;
  EXPECT_NE(std::string(send->status.message()).find(table[1].address), std::string::npos)
      << send->status;
}

// Kills the peer at ever later moments of a transfer in both directions.
TEST_P(TransportConformance, KilledPeerFailsItsOperations) {
  const auto world = GetParam().make();
  const Bytes data = Pattern(VictimRole::kBulkBytes, 4);
  for (int rounds : {0, 3, 30, 300}) {
    SCOPED_TRACE(absl::StrCat("killed after ", rounds));
    Mesh mesh(*world, 1);
    const auto victim = world->NewVictim();
    auto table = mesh.Table(rounds);
    std::string token = absl::StrCat("victim ", rounds);
    token.resize(16, '.');
    table.push_back({victim->address(), token});
    mesh.Open(0, "g", table);
    victim->Start(table);
    Bytes greeting(VictimRole::kGreetingBytes), bulk(VictimRole::kBulkBytes), never(10);
    Outcome* hello = mesh.Receive(0, 1, MessageTag{}, greeting);
    ASSERT_TRUE(mesh.ProgressUntil([&] { return hello->done(); }, [&] { victim->Progress(); }));
    EXPECT_TRUE(hello->ok() && greeting == Pattern(VictimRole::kGreetingBytes, 0)) << hello->status;
    Outcome* receive = mesh.Receive(0, 1, MessageTag{.index = 1}, bulk);
    Outcome* send = mesh.Send(0, 1, MessageTag{.index = 2}, data);
    Outcome* unanswered = mesh.Receive(0, 1, MessageTag{.index = 3}, never);
    mesh.ProgressTimes(rounds);
    victim->Kill();
    ASSERT_TRUE(mesh.Finish({receive, send, unanswered}));
    EXPECT_EQ(unanswered->code(), StatusCode::kUnavailable) << unanswered->status;
    EXPECT_TRUE(send->ok() || send->code() == StatusCode::kUnavailable) << send->status;
    EXPECT_TRUE(receive->ok() || receive->code() == StatusCode::kUnavailable) << receive->status;
    Outcome* late = mesh.Send(0, 1, MessageTag{.index = 4}, data);
    ASSERT_TRUE(mesh.Finish({late}));
    EXPECT_EQ(late->code(), StatusCode::kUnavailable);
  }
}

}  // namespace
}  // namespace remesh::worker::conformance
