// SPDX-License-Identifier: Apache-2.0
#include "service/front/connection_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/fd.h"
#include "service/front/listen.h"
#include "service/testing/loopback.h"

namespace remesh::service {
namespace {

using std::chrono::seconds;

// Both ends of a connection from an address of loopback.
struct Pair {
  Fd client, server;

  // Sends bytes, which the server reads.
  void Send(size_t bytes) const {
    std::string all(bytes, 'x');
    ASSERT_EQ(send(client.get(), all.data(), bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
    ASSERT_EQ(recv(server.get(), all.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
  }
};

class NoiseTest : public testing::Test {
 protected:
  std::unique_ptr<Pair> Connect(const char* from) {
    auto pair = std::make_unique<Pair>();
    pair->client = ConnectTo(listeners_->port, from);
    pair->server = Fd(accept4(listeners_->sockets.front().get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(table_.Admit(pair->server.get(), AddressOf(pair->server.get())));
    return pair;
  }
  // The descriptors of what is taken a second later.
  std::vector<int> Take() {
    std::vector<int> taken;
    for (const auto& connection : table_.TakeNoisy(messages_, now_ += seconds(1), memory_, limits_))
      taken.push_back(connection.fd);
    return taken;
  }
  void Message(const Pair& pair, uint64_t bytes) {
    messages_.Add(PeerOf(pair.server.get()), bytes);
  }

  const absl::StatusOr<Listeners> listeners_ = ListenOn("127.0.0.1:0", seconds(20));
  const NoiseLimits limits_{
      .of_connection = 1000, .of_address = 1000, .of_all = 3000, .least = 500, .forgiven = 10};
  uint64_t memory_ = 0;  // of the process
  MessageBytes messages_;
  ConnectionTable table_{256};
  std::chrono::steady_clock::time_point now_ = std::chrono::steady_clock::now();
};

TEST_F(NoiseTest, WhatBelongsToNoCallEndsItsConnection) {
  const auto quiet = Connect("127.0.0.2"), loud = Connect("127.0.0.2"),
             other = Connect("127.0.0.3");
  loud->Send(990);
  quiet->Send(20);
  other->Send(1010);
  EXPECT_TRUE(Take().empty());
  loud->Send(50);
  EXPECT_EQ(Take(), std::vector<int>{loud->server.get()});
  loud->Send(2000);
  EXPECT_TRUE(Take().empty()) << "it is no longer in the table";
}

TEST_F(NoiseTest, MessagesAreNoNoiseOnceTheyHaveArrived) {
  const auto pair = Connect("127.0.0.2");
  for (int i = 0; i < 10; ++i) {
    pair->Send(900);  // half of a message, and the rest
    EXPECT_TRUE(Take().empty());
    pair->Send(900);
    Message(*pair, 1800);
    EXPECT_TRUE(Take().empty());
  }
}

// Headers in frames of a byte: they keep a thread of gRPC busy, and others behind it, with few
// bytes.
TEST_F(NoiseTest, AConnectionThatIsSlowToReadAndCompletesNothingIsTaken) {
  const auto slow = Connect("127.0.0.2"), calls = Connect("127.0.0.2"), idle = Connect("127.0.0.2"),
             waits = Connect("127.0.0.2");
  const auto read_one = [](const Pair& pair) {
    char byte;
    EXPECT_EQ(recv(pair.server.get(), &byte, 1, 0), 1);
  };
  const std::string words(100, 'x');
  for (const auto* pair : {&slow, &calls, &waits})
    EXPECT_EQ(send((*pair)->client.get(), words.data(), words.size(), 0), 100);
  for (int look = 1; look <= limits_.slow_looks; ++look) {
    read_one(*slow);
    read_one(*calls);
    Message(*calls, 1);
    idle->Send(1);
    EXPECT_EQ(Take().size(), look == limits_.slow_looks ? 1 : 0) << look;
  }
  read_one(*calls);
  EXPECT_TRUE(Take().empty());
}

// Regression: headers without end at less than what is forgiven took all memory.
TEST_F(NoiseTest, WhoSendsWhatNothingAnswersWhileMemoryGrowsIsTaken) {
  NoiseLimits limits;
  limits.unanswered = 20'000;
  limits.growth_least = 100'000;
  const auto take = [&] {
    return table_.TakeNoisy(messages_, now_ += seconds(1), memory_, limits);
  };
  const auto headers = Connect("127.0.0.2"), upload = Connect("127.0.0.3"),
             answered = Connect("127.0.0.4"), calls = Connect("127.0.0.5");
  memory_ = 1'000'000;
  EXPECT_TRUE(take().empty());
  for (int look = 0; look < 10; ++look) {
    for (const auto* pair : {&headers, &upload, &answered, &calls}) (*pair)->Send(10'000);
    EXPECT_EQ(send(answered->server.get(), std::string(100, 'x').data(), 100, 0), 100);
    Message(*calls, 9'000);
    memory_ += 100'000;  // in proportion to what all send
    EXPECT_TRUE(take().empty()) << look;
  }
  headers->Send(50'000);
  memory_ += 2'000'000;
  const auto taken = take();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].fd, headers->server.get());
  EXPECT_TRUE(taken[0].suspected) << "its address was barred for a slow upload the second time";
  EXPECT_TRUE(take().empty());
  memory_ += 10'000'000;  // for other reasons
  for (const auto* pair : {&answered, &calls}) (*pair)->Send(100);
  const auto others = take();
  ASSERT_EQ(others.size(), 1u) << "an upload may be taken for headers, but no call or answer";
  EXPECT_EQ(others[0].fd, upload->server.get());
}

// Regression: four clients of one address that each sent a legal message were ended.
TEST_F(NoiseTest, ClientsBehindOneAddressMayEachSendALargeMessage) {
  std::vector<std::unique_ptr<Pair>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(Connect("127.0.0.2"));
  for (int part = 0; part < 64; ++part) {
    for (const auto& client : clients) client->Send(size_t{1} << 16);
  }
  NoiseLimits scaled{.of_connection = uint64_t{5} << 20, .of_address = uint64_t{20} << 20};
  EXPECT_TRUE(table_.TakeNoisy(messages_, now_ += seconds(1), memory_, scaled).empty());
}

// Regression: nothing ended connections of a Unix socket that keep its server busy.
TEST_F(NoiseTest, AConnectionOfAUnixSocketThatIsSlowToReadIsTaken) {
  const auto connect = [this](const char* user) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    auto pair = std::make_unique<Pair>(Fd(fds[0]), Fd(fds[1]));
    EXPECT_TRUE(table_.Admit(pair->server.get(), user));
    return pair;
  };
  const auto slow = connect("uid 1"), also_slow = connect("uid 1"), waits = connect("uid 2"),
             calls = connect("uid 1"), idle = connect("uid 1");
  for (const auto* pair : {&slow, &also_slow, &waits, &calls})
    EXPECT_EQ(send((*pair)->client.get(), "xx", 2, 0), 2);
  std::vector<int> taken;
  for (int look = 1; look <= limits_.slow_looks_unix; ++look) {
    EXPECT_TRUE(taken.empty()) << look;
    Message(*calls, 1);
    idle->Send(1);
    taken = Take();
  }
  EXPECT_THAT(taken, testing::UnorderedElementsAre(slow->server.get(), also_slow->server.get()));
  EXPECT_EQ(Take(), std::vector<int>{waits->server.get()}) << "it still waits";
}

TEST_F(NoiseTest, ALittleIsForgivenEachSecond) {
  const auto pair = Connect("127.0.0.2");
  for (int i = 0; i < 300; ++i) {
    pair->Send(10);
    EXPECT_TRUE(Take().empty());
  }
}

TEST_F(NoiseTest, ConnectionsOfOneAddressCountTogether) {
  const auto first = Connect("127.0.0.2"), second = Connect("127.0.0.2");
  first->Send(700);
  second->Send(600);
  EXPECT_EQ(Take(), std::vector<int>{first->server.get()}) << "without it the rest is within";
}

TEST_F(NoiseTest, AllAddressesTogetherHaveALimitToo) {
  std::vector<std::unique_ptr<Pair>> pairs;
  for (const char* from : {"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"}) {
    pairs.push_back(Connect(from));
    pairs.back()->Send(700);
  }
  EXPECT_TRUE(Take().empty());
  pairs[2]->Send(250);
  pairs[1]->Send(200);
  pairs[0]->Send(100);
  EXPECT_EQ(Take(), std::vector<int>{pairs[2]->server.get()});
}

// Many messages that arrive at the same time, one from each host, are no attack.
TEST_F(NoiseTest, AnAddressWithLittleNoiseIsLeftAlone) {
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 2; i < 12; ++i) {
    pairs.push_back(Connect(absl::StrCat("127.0.0.", i).c_str()));
    pairs.back()->Send(450);
  }
  EXPECT_TRUE(Take().empty());
}

// Their descriptors may be others' by now. Regression: whoever connected again began again.
TEST_F(NoiseTest, WhatClosedConnectionsHaveSentCountsOn) {
  auto closed = Connect("127.0.0.2");
  const auto bystander = Connect("127.0.0.2");
  closed->Send(980);
  bystander->Send(15);
  EXPECT_TRUE(Take().empty());
  closed = nullptr;
  bystander->Send(15);
  EXPECT_TRUE(Take().empty());
  const auto next = Connect("127.0.0.2");
  next->Send(300);
  EXPECT_EQ(Take(), std::vector<int>{next->server.get()});
}

TEST_F(NoiseTest, AMessageCountsThoughItsConnectionIsClosed) {
  for (int i = 0; i < 5; ++i) {
    const auto pair = Connect("127.0.0.2");
    pair->Send(600);
    EXPECT_TRUE(Take().empty());
    pair->Send(300);
    Message(*pair, 900);
    pair->server = Fd();
    EXPECT_TRUE(Take().empty());
  }
  EXPECT_TRUE(Take().empty());
}

}  // namespace
}  // namespace remesh::service
