// SPDX-License-Identifier: Apache-2.0
// What strangers and liars can do to the TCP transport. tests/conformance tests the contract that
// all transports share.
#include "worker/transport/tcp_transport.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "worker/transport/socket_address.h"
#include "worker/transport/tcp_group.h"
#include "worker/transport/tcp_handshake.h"

namespace remesh::worker {
namespace {

using absl::StatusCode;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

const AttemptToken kOurs = "token of ours...", kPeers = "token of peer...";

class TcpTransportTest : public testing::Test {
 protected:
  TcpTransportTest() { Start({}); }
  ~TcpTransportTest() override {
    if (group_ == nullptr) return;
    group_->Abort();
    EXPECT_TRUE(Until([&] { return group_->quiesced(); }));
  }

  void Start(const TcpOptions& options) {
    transport_ = *NewTcpTransport(options);
    other_ = *NewTcpTransport({});
  }

  // A group in which the peer is `other_`, or whoever has its token.
  void OpenGroup() { group_ = *transport_->Open(0, Table()); }
  std::vector<Peer> Table() const {
    return {{transport_->address(), kOurs, 0, encrypted_},
            {other_->address(), kPeers, 0, encrypted_}};
  }
  tcp::Secrets secrets() const { return {kOurs, kPeers, encrypted_}; }

  bool Until(const std::function<bool()>& done) {
    const auto deadline = steady_clock::now() + std::chrono::seconds(20);
    while (!done() && steady_clock::now() < deadline) {
      const bool busy = transport_->Progress() | other_->Progress();
      if (!busy) std::this_thread::sleep_for(milliseconds(1));
    }
    return done();
  }

  Fd Dial() {
    const auto address = *ParseSocketAddress(transport_->address());
    Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), address.get(), address.length), 0);
    return fd;
  }

  std::vector<Fd> DialMany(int count) {
    std::vector<Fd> fds;
    for (int i = 0; i < count; ++i) {
      fds.push_back(Dial());
      transport_->Progress();
    }
    return fds;
  }

  template <typename Head>
  bool Receive(const Fd& fd, Head& head) {
    size_t got = 0;
    bool ended = false;
    Until([&] {
      const ssize_t now =
          recv(fd.get(), reinterpret_cast<char*>(&head) + got, sizeof(head) - got, MSG_DONTWAIT);
      if (now > 0) got += static_cast<size_t>(now);
      ended = now == 0 || (now < 0 && errno != EAGAIN);
      return got == sizeof(head) || ended;
    });
    return got == sizeof(head);
  }
  template <typename Head>
  void Send(const Fd& fd, const Head& head) {
    EXPECT_EQ(send(fd.get(), &head, sizeof(head), MSG_NOSIGNAL), ssize_t{sizeof(head)});
  }

  bool Ended(const Fd& fd) {
    char byte;
    const ssize_t got = recv(fd.get(), &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
  }

  // How many did not end, of connections that have got at most a challenge.
  int CountOpen(const std::vector<Fd>& fds) {
    int open = 0;
    for (const Fd& fd : fds) {
      char bytes[sizeof(tcp::Challenge)];
      while (recv(fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
      }
      open += Ended(fd) ? 0 : 1;
    }
    return open;
  }

  // Dials as the peer would.
  Fd DialAsPeer() {
    Fd fd = Dial();
    tcp::Challenge challenge;
    EXPECT_TRUE(Receive(fd, challenge));
    const tcp::DialerHello hello = tcp::MakeHello(secrets(), challenge);
    Send(fd, hello);
    tcp::Answer answer;
    EXPECT_TRUE(Receive(fd, answer));
    EXPECT_TRUE(tcp::Holds(answer, secrets(), challenge, hello));
    return fd;
  }

  // A message arrives from a peer that keeps to the rules.
  void ExpectThatPeersAreServed() {
    auto peers = *other_->Open(1, Table());
    std::vector<std::byte> data(100000, std::byte{7}), got(data.size());
    absl::Status sent = absl::UnknownError(""), received = absl::UnknownError("");
    peers->Send(0, MessageTag{.index = 1}, data, [&](absl::Status s) { sent = s; });
    group_->Receive(1, MessageTag{.index = 1}, got, [&](absl::Status s) { received = s; });
    EXPECT_TRUE(Until([&] { return sent.ok() && received.ok(); })) << sent << received;
    EXPECT_TRUE(got == data);
    peers->Abort();
    EXPECT_TRUE(Until([&] { return peers->quiesced(); }));
  }

  std::unique_ptr<Transport> transport_, other_;
  std::unique_ptr<PeerGroup> group_;
  bool encrypted_ = false;
};

TEST_F(TcpTransportTest, RefusesAddressesItCannotListenOn) {
  EXPECT_EQ(NewTcpTransport({.bind_address = "localhost"}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(NewTcpTransport({.bind_address = "192.0.2.1"}).status().code(),
            StatusCode::kUnavailable);
  for (const char* any : {"0.0.0.0", "::"}) {
    EXPECT_EQ(NewTcpTransport({.bind_address = any}).status().code(), StatusCode::kInvalidArgument)
        << "peers would dial themselves";
  }
}

// The kernel says so at once, from inside Send().
TEST_F(TcpTransportTest, AnOperationWithAPeerThatThereIsNoWayToEnds) {
  group_ = *transport_->Open(0, {{transport_->address(), kOurs}, {"192.0.2.1:9", kPeers}});
  absl::Status sent;
  bool done = false;
  group_->Send(1, MessageTag{}, {}, [&](absl::Status s) { sent = s, done = true; });
  EXPECT_TRUE(Until([&] { return done; }));
  EXPECT_EQ(sent.code(), StatusCode::kUnavailable) << sent;
}

TEST_F(TcpTransportTest, ListensOnTheAddressItTells) {
  EXPECT_EQ(transport_->address().substr(0, 10), "127.0.0.1:");
  EXPECT_TRUE(ParseSocketAddress(transport_->address()).ok());
}

TEST_F(TcpTransportTest, AConnectionThatSaysNothingEnds) {
  OpenGroup();
  const Fd silent = Dial();
  tcp::Challenge challenge;
  EXPECT_TRUE(Receive(silent, challenge));
  EXPECT_TRUE(Until([&] { return Ended(silent); }));
  ExpectThatPeersAreServed();
}

TEST_F(TcpTransportTest, RandomAndMutatedBytesEndTheirConnectionAndNothingElse) {
  OpenGroup();
  std::mt19937_64 random(5);
  for (int i = 0; i < 300; ++i) {
    const Fd fd = Dial();
    tcp::Challenge challenge;
    ASSERT_TRUE(Receive(fd, challenge));
    tcp::DialerHello hello = tcp::MakeHello(secrets(), challenge);
    auto* bytes = reinterpret_cast<unsigned char*>(&hello);
    if (i % 2 == 0) {
      for (size_t k = 0; k < sizeof(hello); ++k) bytes[k] = static_cast<unsigned char>(random());
    } else {
      bytes[random() % sizeof(hello)] ^= static_cast<unsigned char>(1 << random() % 8);
    }
    Send(fd, hello);
    tcp::Answer answer;
    const bool answered = Receive(fd, answer);
    EXPECT_FALSE(answered && answer.code == tcp::Code::kAccepted) << i;
    EXPECT_TRUE(Until([&] { return Ended(fd); })) << i;
  }
  ExpectThatPeersAreServed();
}

TEST_F(TcpTransportTest, ManySilentStrangersKeepNoPeerOut) {
  Start({.unproved_max = 40, .unproved_per_address_max = 1000});
  OpenGroup();
  const std::vector<Fd> strangers = DialMany(200);
  ExpectThatPeersAreServed();
  EXPECT_LE(CountOpen(strangers), 40);
}

TEST_F(TcpTransportTest, OneAddressHasNoMoreThanItsShareOfSilentConnections) {
  Start({.unproved_per_address_max = 5, .handshake_timeout = std::chrono::seconds(600)});
  OpenGroup();
  const std::vector<Fd> strangers = DialMany(50);
  EXPECT_EQ(CountOpen(strangers), 5) << "the last ones";
  ExpectThatPeersAreServed();
}

TEST_F(TcpTransportTest, WithoutTheGroupADialerIsTold) {
  for (const bool was_open : {false, true}) {
    if (was_open) {
      OpenGroup();
      group_->Abort();
      ASSERT_TRUE(Until([&] { return group_->quiesced(); }));
    }
    const Fd fd = Dial();
    tcp::Challenge challenge;
    ASSERT_TRUE(Receive(fd, challenge));
    Send(fd, tcp::MakeHello(secrets(), challenge));
    tcp::Answer answer;
    ASSERT_TRUE(Receive(fd, answer));
    EXPECT_EQ(answer.code, was_open ? tcp::Code::kLeft : tcp::Code::kNotHere);
  }
}

// A peer that knows the tokens and breaks the rules is lost; its bytes reach no memory.
TEST_F(TcpTransportTest, WhatIsNotAwaitedEndsThePeer) {
  using Kind = tcp::Frame::Kind;
  const MessageTag posted{.index = 1}, unknown{.index = 2};
  const std::vector<tcp::Frame> broken = {
      {.tag = unknown, .bytes = 8, .kind = Kind::kData},
      {.tag = unknown, .bytes = 8, .kind = Kind::kRefuse},
      {.tag = posted, .bytes = 7, .kind = Kind::kData},
      {.tag = posted, .bytes = ~uint64_t{0}, .kind = Kind::kData},
      {.tag = posted, .bytes = 8, .kind = Kind::kGrant},
      {.tag = posted, .bytes = 8, .kind = static_cast<Kind>(99)},
  };
  for (const tcp::Frame& frame : broken) {
    OpenGroup();
    std::vector<std::byte> buffer(8, std::byte{0xee});
    absl::Status received;
    bool done = false;
    group_->Receive(1, posted, buffer, [&](absl::Status s) { received = s, done = true; });
    const Fd peer = DialAsPeer();
    tcp::Frame grant;
    ASSERT_TRUE(Receive(peer, grant));
    EXPECT_EQ(grant.tag, posted);
    EXPECT_EQ(grant.bytes, 8u);
    Send(peer, frame);
    EXPECT_TRUE(Until([&] { return done && Ended(peer); }));
    EXPECT_EQ(received.code(), StatusCode::kUnavailable) << received;
    EXPECT_EQ(buffer, std::vector<std::byte>(8, std::byte{0xee}));
    group_->Abort();
    ASSERT_TRUE(Until([&] { return group_->quiesced(); }));
    transport_ = *NewTcpTransport({});
  }
}

TEST_F(TcpTransportTest, ASecondConnectionOfAPeerEndsBoth) {
  OpenGroup();
  const Fd first = DialAsPeer();
  const Fd second = Dial();
  tcp::Challenge challenge;
  ASSERT_TRUE(Receive(second, challenge));
  Send(second, tcp::MakeHello(secrets(), challenge));
  EXPECT_TRUE(Until([&] { return Ended(first) && Ended(second); }));
}

class EncryptedTransportTest : public TcpTransportTest {
 protected:
  EncryptedTransportTest() { encrypted_ = true; }
};

TEST_F(EncryptedTransportTest, PeersAreServed) {
  OpenGroup();
  ExpectThatPeersAreServed();
}

// A host that knows the tokens but takes the attempt for one in the clear is kept out, on either
// side.
TEST_F(EncryptedTransportTest, NoPeerIsSpokenToInTheClear) {
  OpenGroup();
  const Fd plain = Dial();
  tcp::Challenge challenge;
  ASSERT_TRUE(Receive(plain, challenge));
  Send(plain, tcp::MakeHello({kOurs, kPeers, false}, challenge));
  tcp::Answer answer;
  ASSERT_TRUE(Receive(plain, answer));
  EXPECT_EQ(answer.code, tcp::Code::kRefused);
  EXPECT_TRUE(Until([&] { return Ended(plain); }));

  encrypted_ = false;
  auto peers = *other_->Open(1, Table());
  bool done = false;
  absl::Status sent;
  const std::vector<std::byte> data(100);
  peers->Send(0, MessageTag{.index = 1}, data, [&](absl::Status s) { sent = s, done = true; });
  EXPECT_TRUE(Until([&] { return done; }));
  EXPECT_EQ(sent.code(), StatusCode::kUnavailable) << sent;
  peers->Abort();
  EXPECT_TRUE(Until([&] { return peers->quiesced(); }));
}

// Frames in the clear behind a good handshake reach no memory.
TEST_F(EncryptedTransportTest, AFrameThatIsNotSealedEndsThePeer) {
  OpenGroup();
  std::vector<std::byte> buffer(8, std::byte{0xee});
  absl::Status received;
  bool done = false;
  group_->Receive(1, MessageTag{.index = 1}, buffer,
                  [&](absl::Status s) { received = s, done = true; });
  const Fd peer = DialAsPeer();
  const tcp::Frame frame{.tag = {.index = 1}, .bytes = 8, .kind = tcp::Frame::Kind::kData};
  Send(peer, frame);
  Send(peer, uint64_t{0});
  EXPECT_TRUE(Until([&] { return done && Ended(peer); }));
  EXPECT_EQ(received.code(), StatusCode::kUnavailable) << received;
  EXPECT_NE(received.message().find("not authentic"), std::string::npos) << received;
  EXPECT_EQ(buffer, std::vector<std::byte>(8, std::byte{0xee}));
}

}  // namespace
}  // namespace remesh::worker
