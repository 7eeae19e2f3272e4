// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/http_answers.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <vector>

#include "absl/synchronization/notification.h"
#include "service/testing/loopback.h"

namespace remesh::service {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr size_t kLarge = 16 << 20;  // more than sockets hold

class HttpAnswersTest : public testing::Test {
 protected:
  void Start(HttpAnswers::Options options) {
    answers_ = std::make_unique<HttpAnswers>(
        HttpPaths{{"/large", {.make = [] { return HttpAnswer{.body = std::string(kLarge, 'x')}; }}},
                  {"/long",
                   {.make =
                        [this] {
                          if (made_++ == 0) begun_.Notify();
                          go_on_.WaitForNotification();
                          return HttpAnswer{.body = "long"};
                        }}},
                  {"/quick", {.make = [] { return HttpAnswer{.body = "q"}; }, .waits = false}}},
        options);
  }
  ~HttpAnswersTest() override {
    if (!go_on_.HasBeenNotified()) go_on_.Notify();
    answers_.reset();
  }

  static void Request(const Fd& client, const std::string& path) {
    const std::string request = "GET " + path + " HTTP/1.1\r\n\r\n";
    EXPECT_EQ(send(client.get(), request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
  }

  // The client's side; both are of one address.
  Fd Ask(const std::string& path) {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    Fd client(pair[0]), server(pair[1]);
    Request(client, path);
    SetPatience(client);
    answers_->Take(std::move(server));
    return client;
  }

  // The same from an address of loopback.
  Fd AskFrom(const char* from, const std::string& path) {
    LoopbackPair pair(from);
    Request(pair.client, path);
    pollfd come{pair.server.get(), POLLIN, 0};
    EXPECT_EQ(poll(&come, 1, 20'000), 1);
    answers_->Take(std::move(pair.server));
    return std::move(pair.client);
  }

  // Connections taken before have asked by then.
  void AwaitTaken() { EXPECT_TRUE(ReadToEnd(Ask("/quick")).ends_with("\r\n\r\nq")); }

  // Without reading; waits at most 20 s.
  static bool IsClosed(const Fd& fd) {
    pollfd end{fd.get(), 0, 0};
    return poll(&end, 1, 20'000) == 1;
  }

  // Its answer is on the way, and more than is there waits to be read.
  static void AwaitAnswer(const Fd& fd) {
    char byte;
    EXPECT_EQ(recv(fd.get(), &byte, 1, 0), 1);
  }

  // With room for two.
  void ExpectTheOldestMakesRoom(HttpAnswers::Options options) {
    Start(options);
    const Fd first = Ask("/large"), second = Ask("/large");
    for (const Fd* fd : {&first, &second}) AwaitAnswer(*fd);
    AwaitTaken();
    EXPECT_TRUE(IsClosed(first));
    EXPECT_GT(ReadToEnd(second).size(), kLarge - 1);
  }

  std::atomic<int> made_ = 0;
  absl::Notification begun_, go_on_;
  std::unique_ptr<HttpAnswers> answers_;
};

TEST_F(HttpAnswersTest, AnAnswerThatIsNotReadEnds) {
  Start({.time_max = milliseconds(50)});
  EXPECT_TRUE(IsClosed(Ask("/large")));
}

TEST_F(HttpAnswersTest, AnAnswerThatIsReadComesWhole) {
  Start({.time_max = hours(1)});
  EXPECT_GT(ReadToEnd(Ask("/large")).size(), kLarge);
}

TEST_F(HttpAnswersTest, TheOldestMakesRoomForTheNewestOfItsAddress) {
  ExpectTheOldestMakesRoom({.per_address_max = 2, .time_max = hours(1)});
}

TEST_F(HttpAnswersTest, TheOldestMakesRoomForTheNewest) {
  ExpectTheOldestMakesRoom({.connections_max = 2, .time_max = hours(1)});
}

// Regression: when callers of two other addresses took all connections, a scrape was reset because
// it was the oldest.
TEST_F(HttpAnswersTest, AddressesWithManyMakeRoomNotThoseWithOne) {
  Start({.per_address_max = 4, .connections_max = 8, .time_max = hours(1)});
  const Fd scrape = AskFrom("127.0.0.5", "/long");
  begun_.WaitForNotification();
  std::vector<Fd> flood;
  for (int i = 0; i < 10; ++i) {
    for (const char* from : {"127.0.0.2", "127.0.0.3", "127.0.0.4"}) {
      flood.push_back(AskFrom(from, "/large"));
    }
  }
  EXPECT_TRUE(ReadToEnd(AskFrom("127.0.0.6", "/quick")).ends_with("\r\n\r\nq"));
  go_on_.Notify();
  EXPECT_TRUE(ReadToEnd(scrape).ends_with("\r\n\r\nlong"));
}

TEST_F(HttpAnswersTest, WhoDoesNotReadMakesRoomBeforeWhoIsKeptWaiting) {
  Start({.per_address_max = 2, .time_max = hours(1)});
  const Fd waits = Ask("/long");
  begun_.WaitForNotification();
  const Fd slow = Ask("/large");
  AwaitAnswer(slow);
  AwaitTaken();
  EXPECT_TRUE(IsClosed(slow));
  go_on_.Notify();
  EXPECT_TRUE(ReadToEnd(waits).ends_with("\r\n\r\nlong"));
}

TEST_F(HttpAnswersTest, ThoseWhoAskWhileAnAnswerIsMadeShareTheNextOne) {
  Start({.time_max = hours(1)});
  std::vector<Fd> asking;
  asking.push_back(Ask("/long"));
  begun_.WaitForNotification();
  for (int i = 0; i < 40; ++i) asking.push_back(Ask("/long"));
  AwaitTaken();
  go_on_.Notify();
  for (const Fd& fd : asking) EXPECT_TRUE(ReadToEnd(fd).ends_with("\r\n\r\nlong"));
  EXPECT_EQ(made_, 2);
}

TEST_F(HttpAnswersTest, AClientThatIsGoneIsInNoOthersWay) {
  Start({.time_max = hours(1)});
  const Fd waits = Ask("/long");
  begun_.WaitForNotification();
  for (int i = 0; i < 10; ++i) Ask("/long");  // and closes
  AwaitTaken();
  go_on_.Notify();
  EXPECT_TRUE(ReadToEnd(waits).ends_with("\r\n\r\nlong"));
}

}  // namespace
}  // namespace remesh::service
