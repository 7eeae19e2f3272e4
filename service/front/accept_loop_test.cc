// SPDX-License-Identifier: Apache-2.0
#include "service/front/accept_loop.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "service/front/listen.h"
#include "service/testing/loopback.h"

namespace remesh::service {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

void Send(const Fd& fd) { EXPECT_EQ(send(fd.get(), "x", 1, MSG_NOSIGNAL), 1); }

void Send(const Fd& fd, size_t bytes) {
  const std::string all(bytes, 'x');
  EXPECT_EQ(send(fd.get(), all.data(), bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

void ReadAll(const Fd& fd) {
  char bytes[4096];
  while (recv(fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
  }
}

// Waits until the other side closes, which it must within 20 s.
bool HasEnded(const Fd& fd) {
  char byte;
  const ssize_t count = recv(fd.get(), &byte, 1, 0);
  return count == 0 || (count < 0 && errno == ECONNRESET);
}

// Whether the other side has closed already.
bool EndsNow(const Fd& fd) {
  char byte;
  const ssize_t count = recv(fd.get(), &byte, 1, MSG_DONTWAIT);
  return count == 0 || (count < 0 && errno == ECONNRESET);
}

// The process may have 1024 descriptors until this ends, and after that, too, unless it is
// privileged: the next tests do with them.
class FewDescriptors {
 public:
  FewDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit low{1024, 1024};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

class AcceptLoopTest : public testing::Test {
 protected:
  void Start(AcceptLoop::Options options) {
    auto listeners = ListenOn("127.0.0.1:0", seconds(5));
    ASSERT_TRUE(listeners.ok()) << listeners.status();
    Start(*std::move(listeners), std::move(options));
  }

  void Start(Listeners listeners, AcceptLoop::Options options) {
    port_ = listeners.port;
    const auto take = [this](int fd) {
      std::lock_guard lock(mutex_);
      taken_.emplace_back(fd);
      changed_.notify_all();
    };
    loop_ = std::make_unique<AcceptLoop>(std::move(listeners.sockets), std::move(options), take);
  }

  bool AwaitTaken(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(20), [&] { return taken_.size() >= count; });
  }

  // Until the loop has seen all that was there before.
  void PassTurns() {
    for (int turn = 0; turn < 3; ++turn) {
      const size_t before = [this] {
        std::lock_guard lock(mutex_);
        return taken_.size();
      }();
      Send(ConnectTo(port_));
      ASSERT_TRUE(AwaitTaken(before + 1));
    }
  }

  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Fd> taken_;
  std::unique_ptr<AcceptLoop> loop_;
};

TEST_F(AcceptLoopTest, HandsOverWhoeverSpeaks) {
  Start({.silence_max = hours(1)});
  const Fd silent = ConnectTo(port_), speaker = ConnectTo(port_);
  Send(speaker);
  ASSERT_TRUE(AwaitTaken(1));
  char byte = 0;
  EXPECT_EQ(recv(taken_[0].get(), &byte, 1, 0), 1) << "what was said is still there";
  EXPECT_EQ(byte, 'x');
}

TEST_F(AcceptLoopTest, SilenceEndsAConnection) {
  Start({.silence_max = milliseconds(1)});
  EXPECT_TRUE(HasEnded(ConnectTo(port_)));
}

TEST_F(AcceptLoopTest, HalfAnOpeningIsSilence) {
  Start({.silence_max = seconds(2), .opening_bytes = 3});
  const Fd half = ConnectTo(port_), whole = ConnectTo(port_);
  for (const Fd* fd : {&half, &whole, &whole, &half, &whole}) Send(*fd);
  ASSERT_TRUE(AwaitTaken(1));
  EXPECT_TRUE(HasEnded(half));
  char all[3];
  EXPECT_EQ(recv(taken_[0].get(), all, sizeof(all), 0), 3);
  EXPECT_EQ(taken_.size(), 1u);
}

TEST_F(AcceptLoopTest, AnOpeningIsWhatIsSaidToBeOne) {
  Start({.silence_max = hours(1), .opening_bytes = 3, .is_opening = [](std::string_view said) {
           return said == "xx";
         }});
  const Fd half = ConnectTo(port_), whole = ConnectTo(port_), much = ConnectTo(port_);
  for (const Fd* fd : {&half, &whole, &whole}) Send(*fd);
  EXPECT_EQ(send(much.get(), "yyyy", 4, MSG_NOSIGNAL), 4);
  ASSERT_TRUE(AwaitTaken(1));
  char all[3];
  EXPECT_EQ(recv(taken_[0].get(), all, sizeof(all), 0), 2);
  EXPECT_TRUE(HasEnded(much)) << "more than an opening may have";
  Send(half);
  EXPECT_TRUE(AwaitTaken(2)) << "it is silent no longer";
}

TEST_F(AcceptLoopTest, WhoIsForgottenTakesNoRoom) {
  Start({.per_address_max = 2, .silence_max = hours(1), .forgets_taken = true});
  std::vector<Fd> mine;
  for (int i = 0; i < 4; ++i) Send(mine.emplace_back(ConnectTo(port_)));
  ASSERT_TRUE(AwaitTaken(4));
  for (int i = 0; i < 3; ++i) mine.push_back(ConnectTo(port_));
  EXPECT_TRUE(HasEnded(mine[4])) << "the silent count";
}

// All connect at once, so that the first one's event has not come yet when the next ones need room.
TEST_F(AcceptLoopTest, WhoHasSpokenMakesNoRoomForTheNext) {
  auto listeners = ListenOn("127.0.0.1:0", seconds(5));
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  port_ = listeners->port;
  const Fd speaker = ConnectTo(port_);
  Send(speaker);
  std::vector<Fd> silent;
  for (int i = 0; i < 5; ++i) silent.push_back(ConnectTo(port_));
  Start(*std::move(listeners),
        {.per_address_max = 2, .silence_max = hours(1), .forgets_taken = true});
  EXPECT_TRUE(AwaitTaken(1));
  EXPECT_TRUE(HasEnded(silent[2]));
}

TEST_F(AcceptLoopTest, OneAddressLeavesRoomForOthersAndClosedOnesForNewOnes) {
  Start({.per_address_max = 2, .silence_max = hours(1)});
  std::vector<Fd> mine;
  for (int i = 0; i < 2; ++i) Send(mine.emplace_back(ConnectTo(port_)));
  ASSERT_TRUE(AwaitTaken(2));
  EXPECT_TRUE(HasEnded(ConnectTo(port_)));
  Send(mine.emplace_back(ConnectTo(port_, "127.0.0.2")));
  ASSERT_TRUE(AwaitTaken(3));
  taken_.front().Reset();  // the loop is not informed
  Send(mine.emplace_back(ConnectTo(port_)));
  EXPECT_TRUE(AwaitTaken(4));
}

TEST_F(AcceptLoopTest, TheSilentOfAnAddressMakeRoomForItsNextAndForNoOther) {
  Start({.per_address_max = 2, .silence_max = hours(1)});
  const Fd other = ConnectTo(port_, "127.0.0.2"), first = ConnectTo(port_),
           second = ConnectTo(port_);
  const Fd third = ConnectTo(port_);
  EXPECT_TRUE(HasEnded(first));
  for (const Fd* fd : {&other, &second, &third}) Send(*fd);
  EXPECT_TRUE(AwaitTaken(3));
}

// Each side's descriptors are this process's, so that twice as many are used as there are
// connections.
TEST_F(AcceptLoopTest, TooManyUnfinishedCallsEndTheirConnection) {
  auto calls = std::make_shared<UnfinishedCalls>(/*max=*/2);
  Start({.silence_max = hours(1), .unfinished = calls});
  const Fd hasty = ConnectTo(port_, "127.0.0.2"), other = ConnectTo(port_);
  Send(hasty);
  ASSERT_TRUE(AwaitTaken(1));
  Send(other);
  ASSERT_TRUE(AwaitTaken(2));
  const std::string peer = PeerOf(taken_[0].get()), other_peer = PeerOf(taken_[1].get());
  EXPECT_TRUE(peer.starts_with("ipv4:127.0.0.2:")) << peer;
  for (int i = 0; i < 2; ++i) calls->Begin(other_peer);
  for (int i = 0; i < 5; ++i) calls->Begin(peer), calls->End(peer);  // never more than one
  for (int i = 0; i < 3; ++i) calls->Begin(peer);
  EXPECT_TRUE(HasEnded(hasty));
  EXPECT_TRUE(HasEnded(ConnectTo(port_, "127.0.0.2"))) << "its address has no other for a while";
  Send(ConnectTo(port_));
  EXPECT_TRUE(AwaitTaken(3)) << "others go on";
  char byte;
  EXPECT_EQ(recv(other.get(), &byte, 1, MSG_DONTWAIT), -1) << "and what is not too much";
}

// Regression: every other connection with unread bytes was ended and its address barred, one every
// 5 ms, even after the flood had ended; its bytes were unread only because of the flood.
TEST_F(AcceptLoopTest, AFloodEndsTheConnectionThatIsReadMost) {
  constexpr int kHalf = UnfinishedCalls::kWaitingMax / 2;
  auto calls = std::make_shared<UnfinishedCalls>();
  Start({.silence_max = hours(1), .unfinished = calls});
  const Fd flood = ConnectTo(port_, "127.0.0.2"), busy = ConnectTo(port_, "127.0.0.3");
  Send(flood, 8192);
  ASSERT_TRUE(AwaitTaken(1));
  Send(busy, 65536);
  ASSERT_TRUE(AwaitTaken(2));
  ReadAll(taken_[1]);  // before the flood
  Send(busy, 16384);
  for (int i = 0; i < kHalf + 1; ++i) calls->Arrive();
  PassTurns();
  ReadAll(taken_[0]);
  for (int i = 0; i < kHalf - 1; ++i) calls->Arrive();
  EXPECT_FALSE(calls->flooded());
  calls->Arrive();
  EXPECT_TRUE(HasEnded(flood));
  EXPECT_TRUE(calls->flooded());
  PassTurns();
  char byte;
  EXPECT_EQ(recv(busy.get(), &byte, 1, MSG_DONTWAIT), -1);
  ReadAll(taken_[1]);
  PassTurns();
  EXPECT_EQ(recv(busy.get(), &byte, 1, MSG_DONTWAIT), -1) << "no more calls have come";
  for (int i = 0; i < kHalf; ++i) calls->Arrive();
  EXPECT_TRUE(HasEnded(busy)) << "now they have";
  for (int i = 0; i < kHalf; ++i) calls->Leave();
  EXPECT_TRUE(calls->flooded());
  calls->Leave();
  EXPECT_FALSE(calls->flooded());
}

// Regression: a barrier of 10,000 processes ended the connection of one of them, which was lost.
TEST_F(AcceptLoopTest, ACrowdIsNoFlood) {
  constexpr int kHalf = UnfinishedCalls::kWaitingMax / 2;
  auto calls = std::make_shared<UnfinishedCalls>();
  Start({.silence_max = hours(1), .unfinished = calls});
  std::vector<Fd> crowd;
  for (int i = 0; i < 40; ++i) {
    crowd.push_back(ConnectTo(port_, "127.0.0.2"));
    Send(crowd.back(), 8192);
  }
  ASSERT_TRUE(AwaitTaken(crowd.size()));
  for (int i = 0; i < kHalf + 1; ++i) calls->Arrive();
  PassTurns();
  for (const Fd& taken : taken_) ReadAll(taken);
  for (int i = 0; i < kHalf; ++i) calls->Arrive();
  EXPECT_TRUE(calls->flooded());
  PassTurns();
  EXPECT_TRUE(std::ranges::none_of(crowd, EndsNow));
  for (int i = 0; i < UnfinishedCalls::kCrowdMax; ++i) calls->Arrive();
  PassTurns();
  for (const Fd& each : crowd) Send(each, 8192);
  for (const Fd& taken : taken_) ReadAll(taken);
  for (int i = 0; i < kHalf; ++i) calls->Arrive();
  PassTurns();
  EXPECT_EQ(std::ranges::count_if(crowd, EndsNow), 1) << "so many are too much in any case";
}

TEST_F(AcceptLoopTest, TheSilentMakeRoomWhenDescriptorsRunShort) {
  const FewDescriptors few;
  Start({.per_address_max = 10000, .silence_max = hours(1)});
  std::vector<Fd> silent;
  for (int i = 0; i < 400; ++i) silent.push_back(ConnectTo(port_));
  const Fd speaker = ConnectTo(port_);
  Send(speaker);
  EXPECT_TRUE(AwaitTaken(1));
  EXPECT_TRUE(HasEnded(silent[0])) << "the longest silent made room";
}

TEST_F(AcceptLoopTest, WhoReservesFewerDescriptorsIsServedWhenOthersHaveTakenTheirs) {
  const FewDescriptors few;
  Start({.silence_max = hours(1), .reserved_descriptors = kReservedDescriptors / 2});
  std::vector<Fd> files;
  do {
    files.emplace_back(eventfd(0, 0));
  } while (files.back().get() < 1024 - kReservedDescriptors);
  Send(ConnectTo(port_));
  EXPECT_TRUE(AwaitTaken(1));
}

TEST_F(AcceptLoopTest, WhenAllHaveSpokenTheNewestOfTheBusiestAddressMakeRoom) {
  const FewDescriptors few;
  Start({.per_address_max = 10000, .silence_max = hours(1)});
  std::atomic<bool> stopping{false};
  std::thread owner([&] {  // answers who speaks, and closes what has ended
    for (; !stopping; std::this_thread::yield()) {
      std::lock_guard lock(mutex_);
      std::erase_if(taken_, [](const Fd& fd) {
        char byte;
        const ssize_t count = recv(fd.get(), &byte, 1, MSG_DONTWAIT);
        if (count == 1) Send(fd);
        return count == 0;
      });
    }
  });
  const auto is_answered = [](const Fd& fd) {
    Send(fd);
    char byte;
    return recv(fd.get(), &byte, 1, 0) == 1;
  };
  std::vector<Fd> many, others;
  do {
    ASSERT_TRUE(is_answered(many.emplace_back(ConnectTo(port_))));
  } while (many.back().get() < 1024 - kReservedDescriptors - 4);
  for (int i = 2; i < 10; ++i) {
    others.push_back(ConnectTo(port_, ("127.0.0." + std::to_string(i)).c_str()));
    EXPECT_TRUE(is_answered(others.back())) << i;
  }
  EXPECT_TRUE(HasEnded(many.back())) << "the newest made room";
  EXPECT_TRUE(is_answered(many.front())) << "the oldest did not";
  stopping = true;
  owner.join();
}

TEST(ListenTest, AddressesOfEveryForm) {
  for (const char* address : {"127.0.0.1:0", "localhost:0", "0.0.0.0:0", "[::]:0"}) {
    const auto listeners = ListenOn(address, seconds(5));
    ASSERT_TRUE(listeners.ok()) << listeners.status();
    EXPECT_GT(listeners->port, 0);
    EXPECT_TRUE(ConnectTo(listeners->port)) << address;
  }
}

TEST(ListenTest, AFailureNamesItsCause) {
  const auto first = ListenOn("127.0.0.1:0", seconds(5));
  ASSERT_TRUE(first.ok());
  const std::string taken = "127.0.0.1:" + std::to_string(first->port);
  EXPECT_EQ(ListenOn(taken, seconds(5)).status().message(),
            "listen_address: cannot listen on " + taken + ": Address already in use");
  EXPECT_FALSE(ListenOn("no such host:1", seconds(5)).ok());
}

}  // namespace
}  // namespace remesh::service
