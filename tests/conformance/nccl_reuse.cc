// SPDX-License-Identifier: Apache-2.0
// Communicators that serve one attempt after the other, and all the ways in which they must not.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/conformance/harness.h"
#include "tests/conformance/nccl_mesh.h"
#include "worker/nccl/nccl_transport.h"
#include "worker/nccl/testing/fake_library.h"
#include "worker/transport/testing/memory_transport.h"

namespace remesh::worker::conformance {
namespace {

using absl::StatusCode;
using std::chrono::milliseconds;

constexpr int kHosts = 2, kPerHost = 2, kCount = kHosts * kPerHost;
constexpr size_t kBytes = 100000;  // more than the fake has on its way at once

// One attempt on all hosts: in its only window every device sends to the one so much further, and
// receives behind what it sends.
struct Attempt {
  std::vector<std::unique_ptr<PeerGroup>> groups;  // by host
  std::vector<std::unique_ptr<Outcome>> outcomes;
  int further = 1;
  uint32_t seed = 0;
};

// Hosts that live on between attempts, all driven by the test's thread.
class NcclReuse : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    setenv("REMESH_FAKE_NCCL_DELAY_US", absl::StrCat(GetParam()).c_str(), 1);
    StartHosts(milliseconds(60000));
  }
  void TearDown() override {
    for (auto& attempt : attempts_) End(*attempt);
    hosts_.clear();
    EXPECT_EQ(FakeNcclLiving(), 0) << "with its transport everything is freed";
    unsetenv("REMESH_FAKE_NCCL_DELAY_US");
  }

  void StartHosts(milliseconds idle) {
    hosts_.clear();
    NcclOptions options;
    options.idle = idle;
    options.idle_more = milliseconds(0);
    options.connect_timeout = milliseconds(connect_ms_);
    options.connect_timeout_per_rank = milliseconds(0);
    for (int host = 0; host < kHosts; ++host) {
      hosts_.push_back(std::make_unique<NcclTransport>(
          fabric_.NewTransport(absl::StrCat("host", host)), &FakeNccl(), &devices_.streams(host),
          options, [this] { ++stuck_; }));
    }
  }

  static Lasting Named(const std::string& name, bool reused, const std::string& among = "ab") {
    return {.name = name, .among = among, .reused = reused};
  }
  std::vector<Peer> Table() const {
    std::vector<Peer> table;
    for (int host = 0; host < kHosts; ++host) {
      std::string token = absl::StrCat("token ", attempts_.size(), " of ", host);
      token.resize(16, '.');
      table.push_back({.address = absl::StrCat("host", host),
                       .token = token,
                       .devices = kPerHost,
                       .windowed = true});
    }
    return table;
  }
  Attempt& New(int further = 1) {
    attempts_.push_back(std::make_unique<Attempt>());
    attempts_.back()->groups.resize(kHosts);
    attempts_.back()->further = further;
    attempts_.back()->seed = static_cast<uint32_t>(100 * attempts_.size());
    return *attempts_.back();
  }
  absl::Status Open(Attempt& attempt, int host, const Lasting& lasting) {
    auto group = hosts_[host]->OpenLasting(host, Table(), lasting);
    if (!group.ok()) return group.status();
    attempt.groups[host] = *std::move(group);
    attempt.groups[host]->Expect({static_cast<int32_t>(2 * kPerHost)});
    return absl::OkStatus();
  }
  void OpenAll(Attempt& attempt, const Lasting& lasting) {
    for (int host = 0; host < kHosts; ++host) ASSERT_TRUE(Open(attempt, host, lasting).ok());
  }
  void Post(Attempt& attempt, int host) {
    for (int from = 0; from < kCount; ++from) {
      const int to = (from + attempt.further) % kCount;
      const MessageTag tag{0, static_cast<uint32_t>(from), static_cast<uint32_t>(to), 0};
      if (devices_.HostOf(from) == host) {
        const auto pattern = Pattern(kBytes, attempt.seed + from);
        std::copy(pattern.begin(), pattern.end(), devices_.device(from).host().begin());
        attempt.groups[host]->Send(devices_.HostOf(to), tag,
                                   devices_.device(from).memory().first(kBytes), Watch(attempt));
      }
      if (devices_.HostOf(to) == host) {
        attempt.groups[host]->Receive(devices_.HostOf(from), tag,
                                      devices_.device(to).memory().subspan(kBytes, kBytes),
                                      Watch(attempt));
      }
    }
  }
  PeerGroup::Done Watch(Attempt& attempt) {
    Outcome* outcome = attempt.outcomes.emplace_back(std::make_unique<Outcome>()).get();
    return [outcome](absl::Status status) {
      ++outcome->calls;
      outcome->status = std::move(status);
    };
  }
  bool Progress(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!done() && std::chrono::steady_clock::now() < deadline) {
      bool any = false;
      for (auto& host : hosts_) any |= host->Progress();
      if (!any) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return done();
  }
  bool Finish(Attempt& attempt) {
    return Progress([&] {
      return std::all_of(attempt.outcomes.begin(), attempt.outcomes.end(),
                         [](const auto& outcome) { return outcome->done(); });
    });
  }
  // What was sent has come, and to its end.
  bool Arrived(Attempt& attempt) {
    for (int from = 0; from < kCount; ++from) {
      const auto memory = devices_.device((from + attempt.further) % kCount).host();
      if (!std::ranges::equal(Pattern(kBytes, attempt.seed + from), memory.subspan(kBytes, kBytes)))
        return false;
    }
    return std::all_of(attempt.outcomes.begin(), attempt.outcomes.end(),
                       [](const auto& outcome) { return outcome->ok(); });
  }
  void Exchange(Attempt& attempt, const Lasting& lasting) {
    OpenAll(attempt, lasting);
    for (int host = 0; host < kHosts; ++host) Post(attempt, host);
    ASSERT_TRUE(Finish(attempt));
    EXPECT_TRUE(Arrived(attempt));
  }
  void Rest(Attempt& attempt) {
    for (auto& group : attempt.groups) EXPECT_TRUE(group->Rest());
  }
  // As DataThread does: told to, then destroyed once it has quiesced.
  void End(Attempt& attempt, bool well = false) {
    for (auto& group : attempt.groups) {
      if (group != nullptr) well ? group->Keep() : group->Abort();
    }
    EXPECT_TRUE(Progress([&] {
      return std::all_of(attempt.groups.begin(), attempt.groups.end(),
                         [](const auto& group) { return group == nullptr || group->quiesced(); });
    }));
    for (auto& group : attempt.groups) group.reset();
  }
  // An attempt from its begin to its good end; how many communicators it made.
  int Move(const Lasting& lasting, int further = 1) {
    const int before = FakeNcclMade();
    Attempt& attempt = New(further);
    Exchange(attempt, lasting);
    Rest(attempt);
    End(attempt, /*well=*/true);
    return FakeNcclMade() - before;
  }
  // Of a whole attempt.
  void ExpectNothingIsKept(const Lasting& lasting) {
    Attempt& attempt = New();
    Exchange(attempt, lasting);
    for (auto& group : attempt.groups) EXPECT_FALSE(group->Rest());
    End(attempt, /*well=*/true);
    EXPECT_EQ(FakeNcclLiving(), 0);
  }
  // What host 0 says when it is to use them again.
  std::string ReasonAtHost0(const std::string& name, const std::string& among = "ab") {
    Attempt& attempt = New();
    const absl::Status status = Open(attempt, 0, Named(name, true, among));
    End(attempt);
    return status.ok() ? "" : GetErrorInfo(status).reason;
  }

  int connect_ms_ = 20000;
  MemoryFabric fabric_;
  NcclDevices devices_{kHosts, kPerHost};
  std::vector<std::unique_ptr<NcclTransport>> hosts_;
  std::vector<std::unique_ptr<Attempt>> attempts_;
  int stuck_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Fake, NcclReuse, testing::Values(0, 2000),
                         [](const auto& info) { return absl::StrCat("Delay", info.param); });

TEST_P(NcclReuse, OneAttemptAfterTheOtherUsesThem) {
  EXPECT_EQ(Move(Named("x", false)), kCount);
  EXPECT_EQ(Move(Named("x", true)), 0);
  EXPECT_EQ(Move(Named("x", true), 3), 0) << "pairs that have not exchanged before";
  EXPECT_EQ(FakeNcclLiving(), kCount);
}

// A host that rests closes its end of the bootstrap: for who has had all its windows that is no
// loss.
TEST_P(NcclReuse, OneHostRestsLongBeforeTheOther) {
  Attempt& attempt = New();
  Exchange(attempt, Named("x", false));
  EXPECT_TRUE(attempt.groups[1]->Rest());
  const auto soon = std::chrono::steady_clock::now() + milliseconds(20);
  Progress([&] { return std::chrono::steady_clock::now() > soon; });
  EXPECT_TRUE(attempt.groups[0]->Rest());
  End(attempt, /*well=*/true);
  EXPECT_EQ(Move(Named("x", true)), 0);
}

TEST_P(NcclReuse, OthersThatAreNamedTakeTheirPlace) {
  EXPECT_EQ(Move(Named("x", false)), kCount);
  EXPECT_EQ(Move(Named("y", false)), kCount);
  EXPECT_EQ(FakeNcclLiving(), kCount) << "x was freed before y connected";
  EXPECT_EQ(ReasonAtHost0("x"), "COMMUNICATORS_GONE");
}

TEST_P(NcclReuse, WithoutANameTheyEndWithTheAttempt) { ExpectNothingIsKept({}); }

TEST_P(NcclReuse, WhereNothingIsKeptTheyEndWithTheAttempt) {
  StartHosts(milliseconds(0));
  ExpectNothingIsKept(Named("x", false));
}

TEST_P(NcclReuse, NotAfterAnAttemptThatFailedAfterItsLastWindow) {
  Attempt& attempt = New();
  Exchange(attempt, Named("x", false));
  Rest(attempt);
  EXPECT_EQ(FakeNcclLiving(), kCount);
  End(attempt);
  EXPECT_EQ(FakeNcclLiving(), 0);
  EXPECT_EQ(ReasonAtHost0("x"), "COMMUNICATORS_GONE");
  EXPECT_EQ(Move(Named("y", false)), kCount);
}

TEST_P(NcclReuse, NotAfterOneThatWasCutShort) {
  Move(Named("x", false));
  Attempt& cut = New();
  OpenAll(cut, Named("x", true));
  Post(cut, 0);  // host 1 has nothing ready, so this stays under way
  const auto soon = std::chrono::steady_clock::now() + milliseconds(20);
  Progress([&] { return std::chrono::steady_clock::now() > soon; });
  EXPECT_FALSE(cut.groups[0]->Rest()) << "with operations under way there is nothing to keep";
  End(cut, /*well=*/true);
  EXPECT_EQ(FakeNcclLiving(), 0);
  EXPECT_EQ(ReasonAtHost0("x"), "COMMUNICATORS_GONE");
  EXPECT_EQ(Move(Named("y", false)), kCount) << "and nothing of what was cut arrives there";
}

// No window needed them, so the attempt may end while NCCL still connects. Regression: host 0 kept
// them, and their use later failed.
TEST_P(NcclReuse, NotBeforeNcclHasConnected) {
  Attempt& attempt = New();
  for (int host = 0; host < kHosts; ++host) {
    attempt.groups[host] = *hosts_[host]->OpenLasting(host, Table(), Named("x", false));
    attempt.groups[host]->Expect({0});
  }
  hosts_[1]->Progress();  // it says hello; that it never joins keeps host 0 waiting for it
  const auto soon = std::chrono::steady_clock::now() + milliseconds(100);
  while (std::chrono::steady_clock::now() < soon) hosts_[0]->Progress();
  EXPECT_FALSE(attempt.groups[0]->Rest());
  End(attempt, /*well=*/true);
  EXPECT_EQ(Move(Named("y", false)), kCount);
}

// In an attempt whose data goes by streams alone, nothing is named, and what is kept stays.
TEST_P(NcclReuse, AfterAnAttemptWithoutWindowedPeersTheyAreStillThere) {
  Move(Named("x", false));
  Attempt& streams = New();
  std::vector<Peer> table = Table();
  for (Peer& peer : table) peer.windowed = false;
  for (int host = 0; host < kHosts; ++host)
    streams.groups[host] = *hosts_[host]->OpenLasting(host, table, {});
  End(streams, /*well=*/true);
  EXPECT_EQ(Move(Named("x", true)), 0);
}

TEST_P(NcclReuse, NotAmongOthers) {
  Move(Named("x", false));
  EXPECT_EQ(ReasonAtHost0("x", "another life"), "COMMUNICATORS_GONE");
  EXPECT_EQ(ReasonAtHost0("x"), "COMMUNICATORS_GONE") << "what was not used is not kept";
}

TEST_P(NcclReuse, NotTwiceAtOnce) {
  Move(Named("x", false));
  Attempt& first = New();
  OpenAll(first, Named("x", true));
  EXPECT_EQ(ReasonAtHost0("x"), "COMMUNICATORS_GONE");
  for (int host = 0; host < kHosts; ++host) Post(first, host);
  ASSERT_TRUE(Finish(first));
  EXPECT_TRUE(Arrived(first));
}

TEST_P(NcclReuse, WhoeverIsOpenedNextEndsThoseThatAreInUse) {
  Attempt& first = New();
  Exchange(first, Named("x", false));
  Rest(first);
  Attempt& second = New();
  OpenAll(second, Named("y", false));
  End(first, /*well=*/true);
  for (int host = 0; host < kHosts; ++host) Post(second, host);
  ASSERT_TRUE(Finish(second));
  EXPECT_TRUE(Arrived(second));
  EXPECT_EQ(FakeNcclLiving(), kCount);
}

TEST_P(NcclReuse, DroppedTheyAreFreed) {
  Move(Named("x", false));
  for (auto& host : hosts_) host->DropLasting("another");
  EXPECT_EQ(FakeNcclLiving(), kCount);
  for (auto& host : hosts_) host->DropLasting("x");
  EXPECT_TRUE(Progress([] { return FakeNcclLiving() == 0; }));
  EXPECT_EQ(ReasonAtHost0("x"), "COMMUNICATORS_GONE");
}

TEST_P(NcclReuse, ADropLeavesThoseInUseAlone) {
  Move(Named("x", false));
  Attempt& attempt = New();
  OpenAll(attempt, Named("x", true));
  for (auto& host : hosts_) host->DropLasting("x");
  for (int host = 0; host < kHosts; ++host) Post(attempt, host);
  ASSERT_TRUE(Finish(attempt));
  EXPECT_TRUE(Arrived(attempt));
}

TEST_P(NcclReuse, IdleForTooLongTheyAreFreed) {
  StartHosts(milliseconds(50));
  Move(Named("x", false));
  EXPECT_TRUE(Progress([] { return FakeNcclLiving() == 0; }));
  EXPECT_EQ(ReasonAtHost0("x"), "COMMUNICATORS_GONE");
}

// An attempt that was named them may reserve memory for longer than they are kept idle.
TEST_P(NcclReuse, AwaitedTheyStayUntilTheyAreUsedOrDropped) {
  StartHosts(milliseconds(1000));
  Move(Named("x", false));
  for (auto& host : hosts_) host->AwaitLasting("x");
  const auto later = std::chrono::steady_clock::now() + milliseconds(1100);
  Progress([&] { return std::chrono::steady_clock::now() > later; });
  EXPECT_EQ(FakeNcclLiving(), kCount);
  EXPECT_EQ(Move(Named("x", true)), 0);
  for (auto& host : hosts_) host->AwaitLasting("x");
  for (auto& host : hosts_) host->DropLasting("x");
  EXPECT_TRUE(Progress([] { return FakeNcclLiving() == 0; }));
}

// Nothing that frees works on a device beside windows: NCCL would wait for them.
TEST_P(NcclReuse, NoHostConnectsBeforeWhatWasDroppedIsFreed) {
  Move(Named("x", false));
  setenv("REMESH_FAKE_NCCL_ABORT_MS", "100", 1);
  Attempt& attempt = New();
  const int before = FakeNcclMade();
  OpenAll(attempt, Named("y", false));
  for (int host = 0; host < kHosts; ++host) Post(attempt, host);
  bool made_beside_others = false;
  ASSERT_TRUE(Progress([&] {
    made_beside_others |= FakeNcclLiving() > kCount;
    return FakeNcclMade() > before;
  }));
  ASSERT_TRUE(Finish(attempt));
  EXPECT_FALSE(made_beside_others);
  EXPECT_TRUE(Arrived(attempt));
  unsetenv("REMESH_FAKE_NCCL_ABORT_MS");
}

// Hosts of which one makes them again and the other does not: a planner never says so.
TEST_P(NcclReuse, AllOrNone) {
  Move(Named("x", false));
  Attempt& attempt = New();
  ASSERT_TRUE(Open(attempt, 0, Named("x", true)).ok());
  ASSERT_TRUE(Open(attempt, 1, Named("x", false)).ok());
  for (int host = 0; host < kHosts; ++host) Post(attempt, host);
  EXPECT_TRUE(Progress([&] { return attempt.outcomes.back()->done(); }));
  EXPECT_FALSE(attempt.outcomes.back()->ok());
  End(attempt);
}

TEST_P(NcclReuse, WhoIsAbsentIsNamedBeforeAnythingStarts) {
  connect_ms_ = 2000;
  StartHosts(milliseconds(60000));
  Move(Named("x", false));
  Attempt& attempt = New();
  ASSERT_TRUE(Open(attempt, 0, Named("x", true)).ok());
  Post(attempt, 0);
  ASSERT_TRUE(Finish(attempt));
  const absl::Status& status = attempt.outcomes.front()->status;
  EXPECT_EQ(GetErrorInfo(status).reason, "NCCL_TIMEOUT") << status;
  EXPECT_EQ(GetErrorInfo(status).metadata.at("absent"), "host1");
  End(attempt);
}

// In mid-window or after it, an abort of what is used again is an abort.
TEST_P(NcclReuse, AnAbortFreesThoseInUse) {
  Move(Named("x", false));
  Attempt& attempt = New();
  OpenAll(attempt, Named("x", true));
  for (int host = 0; host < kHosts; ++host) Post(attempt, host);
  End(attempt);
  EXPECT_EQ(FakeNcclLiving(), 0);
  EXPECT_EQ(ReasonAtHost0("x"), "COMMUNICATORS_GONE");
  EXPECT_EQ(stuck_, 0);
}

}  // namespace
}  // namespace remesh::worker::conformance
