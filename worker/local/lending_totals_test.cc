// SPDX-License-Identifier: Apache-2.0
//
// Loans that wait to be opened, and what they may take together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysinfo.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "worker/device/device.h"
#include "worker/local/lending.h"
#include "worker/local/testing/lending_fixture.h"

namespace remesh::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class LoansTogetherTest : public LendingTest {
 protected:
  ~LoansTogetherTest() override { buffers_ = nullptr; }  // before what loans answer to

  // Asks for a loan while the thread of loans is held. Returns the answer so far. The last answer
  // goes to `later_`, by state, and to `order_`.
  Outcome<v1::SealResponse> Ask(const v1::LendRequest& request, uid_t lender = getuid()) {
    const std::string state = request.state();
    Outcome<v1::SealResponse> now = absl::UnknownError("not run");
    OnStrand([&] {
      now = buffers_->Lend(request, lender, [this, state](auto lent) {
        later_[state] = lent.error();
        order_.push_back(state);
      });
    });
    return now;
  }
  void OnStrand(std::function<void()> what) {
    absl::Notification done;
    strand_.Post([&] {
      what();
      done.Notify();
    });
    done.WaitForNotification();
  }
  // Memory is opened from the returned object's Notify() on.
  std::shared_ptr<absl::Notification> HoldLoans() {
    auto go = std::make_shared<absl::Notification>();
    loans_.Post([go] { go->WaitForNotification(); });
    return go;
  }
  // Assigns a state of `shards` bytes, each a shard of device 10. Returns a request that lends each
  // in a memory of its own, which has no access yet.
  v1::LendRequest Many(const std::string& name, int shards) {
    v1::Assignment assignment = TwoShards();
    assignment.set_state("jobs/a/states/" + name);
    assignment.mutable_arrays(0)->set_shape(0, shards);
    assignment.clear_shards();
    v1::LendRequest request;
    request.set_state(assignment.state());
    for (int i = 0; i < shards; ++i) {
      auto* shard = assignment.add_shards();
      shard->set_device(10);
      shard->mutable_box()->add_lo(i);
      shard->mutable_box()->add_hi(i + 1);
      auto* lent = request.add_shards();
      lent->set_array("w");
      lent->set_device(10);
      lent->set_memory(i);
      *lent->mutable_box() = shard->box();
      request.add_memories()->set_bytes(64);
      request.mutable_memories(i)->set_kind("host");
    }
    OnStrand([&] { buffers_->Assign(assignment); });
    return request;
  }
  v1::LendRequest ManyWithTokens(const std::string& name, int shards) {
    v1::LendRequest request = Many(name, shards);
    for (auto& memory : *request.mutable_memories())
      memory.set_token(handles_.Bring(Memory("a"), getuid(), absl::Now()));
    return request;
  }
  // Memory that no worker without devices opens.
  v1::LendRequest ManyByIpc(const std::string& name, int shards, uid_t lender) {
    v1::LendRequest request = Many(name, shards);
    request.set_lease(*handles_.leases().Begin(lender));
    for (auto& memory : *request.mutable_memories()) {
      memory.set_kind("sim");
      memory.mutable_ipc()->set_handle(std::string(kIpcHandleBytes, 'x'));
      memory.mutable_ipc()->set_bytes(64);
    }
    return request;
  }

  std::map<std::string, absl::Status> later_;
  std::vector<std::string> order_;
};

std::string ReasonOf(const absl::Status& status) { return GetErrorInfo(status).reason; }
std::string ReasonOf(const Outcome<v1::SealResponse>& lent) {
  const bool opens = lent.awaited() && lent.awaited()->what == Awaited::What::kOpening;
  return opens ? "opens" : ReasonOf(lent.error());
}

// Many loans at once used up what one loan cannot: the worker's addresses.
TEST_F(LoansTogetherTest, AUsersLoansTogetherAreNoMoreThanTheMachineHas) {
  struct sysinfo machine {};
  ASSERT_EQ(sysinfo(&machine), 0);
  const auto most = static_cast<int64_t>((machine.totalram + machine.totalswap) * machine.mem_unit);
  const auto go = HoldLoans();
  EXPECT_EQ(ReasonOf(Ask(Request(Memory("aaaa", most), most))), "opens");
  const v1::LendRequest second = ManyWithTokens("second", 1);
  const absl::Status refused = Ask(second).error();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(ReasonOf(refused), "TOO_MUCH_LENT");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("memories.bytes: 64"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat(most)));
  // The refusal used up no token, and other users have shares of their own.
  EXPECT_EQ(ReasonOf(Ask(second, getuid() + 1)), "opens");
  OnStrand([&] { buffers_->StopLending(kLentState); });
  const v1::LendRequest third = ManyWithTokens("third", 1);
  EXPECT_EQ(ReasonOf(Ask(third)), "TOO_MUCH_LENT") << "what is not closed yet counts";
  go->Notify();
  Settle();
  EXPECT_TRUE(absl::IsAborted(later_[kLentState]));
  EXPECT_EQ(ReasonOf(Ask(third)), "opens");
  Settle();
  EXPECT_TRUE(later_[third.state()].ok()) << later_[third.state()];
}

TEST_F(LoansTogetherTest, TheMemoriesOfAllLoansAreLimitedAndThoseOfAUserToAQuarter) {
  const auto go = HoldLoans();
  for (uid_t user = 1; user <= 4; ++user) {
    const auto ask = [&](const std::string& name, int memories) {
      return Ask(ManyByIpc(absl::StrCat(name, user), memories, user), user);
    };
    EXPECT_EQ(ReasonOf(ask("most", kLentMemoriesOfUser - 1)), "opens");
    EXPECT_EQ(ReasonOf(ask("last", 1)), "opens");
    const absl::Status refused = ask("more", 1).error();
    EXPECT_EQ(ReasonOf(refused), "TOO_MUCH_LENT") << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("uid ", user, " lends")));
  }
  const absl::Status refused = Ask(ManyByIpc("all", 1, 5), 5).error();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("memories: 1 and the 16384 that all users lend now"));
  go->Notify();
  Settle();
}

TEST_F(LoansTogetherTest, LendersTakeTurns) {
  const auto go = HoldLoans();
  const v1::LendRequest large = ManyWithTokens("large", 2 * kMemoriesAtATime + 1);
  const v1::LendRequest small = ManyWithTokens("small", 1);
  EXPECT_EQ(ReasonOf(Ask(large)), "opens");
  EXPECT_EQ(ReasonOf(Ask(small)), "opens");
  go->Notify();
  for (int i = 0; i < 3; ++i) Settle();
  EXPECT_EQ(order_, (std::vector<std::string>{small.state(), large.state()}));
  EXPECT_TRUE(later_[large.state()].ok()) << later_[large.state()];
  const auto mapped = store_->Map(large.state(), 1);
  ASSERT_TRUE(mapped.ok());
  EXPECT_THAT((*mapped)->files, SizeIs(2 * kMemoriesAtATime + 1));
}

// The call was made again by tokens that were used up, and its caller was told to mend the tokens.
TEST_F(LoansTogetherTest, ALoanByTokensWhoseStateChangesMustBeMadeAgain) {
  v1::Assignment again = TwoShards();
  again.set_state_uid("again");
  v1::Assignment other = TwoShards();
  other.mutable_shards(0)->set_device(12);
  v1::ReleaseRequest release;
  release.set_state(kLentState);
  const std::function<void()> changes[] = {
      [&] { EXPECT_TRUE(buffers_->Release(release).ok()); },
      [&] { buffers_->Assign(other); },
      [&] { buffers_->Assign(again); },
  };
  for (const auto& change : changes) {
    OnStrand([&] { buffers_->Assign(TwoShards()); });
    const auto go = HoldLoans();
    EXPECT_EQ(ReasonOf(Ask(Request(Memory("aaaa")))), "opens");
    OnStrand(change);
    go->Notify();
    Settle();
    EXPECT_TRUE(absl::IsAborted(later_[kLentState])) << later_[kLentState];
    EXPECT_EQ(ReasonOf(later_[kLentState]), "STATE_CHANGED");
    EXPECT_EQ(store_->Find(kLentState, 1), nullptr);
  }
}

}  // namespace
}  // namespace remesh::worker
