// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/tcp_connection.h"

#include <sys/socket.h>

#include <bit>
#include <cstring>

#include "base/check.h"

namespace remesh::worker {
namespace {

static_assert(std::endian::native == std::endian::little, "heads travel as they lie in memory");

template <typename Head>
Head As(std::span<const std::byte> bytes) {
  Head head;
  REMESH_CHECK(bytes.size() == sizeof(head));
  std::memcpy(&head, bytes.data(), sizeof(head));
  return head;
}

}  // namespace

TcpConnection::TcpConnection(Groups* groups, Fd fd, std::string host, TimePoint deadline)
    : groups_(groups),
      stream_(std::move(fd)),
      dialled_(false),
      host_(std::move(host)),
      deadline_(deadline),
      state_(State::kAwaitsHello),
      challenge_(tcp::MakeChallenge()) {
  Queue(challenge_);
}

TcpConnection::TcpConnection(Groups* groups, Fd fd, TcpGroup* group, int peer, TimePoint deadline,
                             Tries tries)
    : groups_(groups),
      stream_(std::move(fd)),
      dialled_(true),
      deadline_(deadline),
      group_(group),
      peer_(peer),
      tries_(tries),
      state_(State::kConnecting) {}

void TcpConnection::OnConnected() {
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(stream_.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return stream_.Fail(std::strerror(error));
  state_ = State::kAwaitsChallenge;
}

size_t TcpConnection::head_bytes() const {
  switch (state_) {
    case State::kConnecting:
    case State::kAwaitsChallenge:
      return sizeof(tcp::Challenge);
    case State::kAwaitsHello:
      return sizeof(tcp::DialerHello);
    case State::kAwaitsAnswer:
      return sizeof(tcp::Answer);
    case State::kOpen:
      break;
  }
  return sizeof(tcp::Frame);
}

bool TcpConnection::OnHead(std::span<const std::byte> head, Runs& body) {
  switch (state_) {
    case State::kConnecting:
      return false;
    case State::kAwaitsChallenge:
      return OnChallenge(As<tcp::Challenge>(head));
    case State::kAwaitsHello:
      return OnHello(As<tcp::DialerHello>(head));
    case State::kAwaitsAnswer:
      return OnAnswer(As<tcp::Answer>(head));
    case State::kOpen:
      break;
  }
  return group_->OnFrame(peer_, *this, As<tcp::Frame>(head), body);
}

tcp::Secrets TcpConnection::SecretsOf(const TcpGroup& group, int peer) const {
  const Peer& other = group.peer(peer);
  if (dialled_) return {other.token, group.token(), other.encrypted};
  return {group.token(), other.token, other.encrypted};
}

void TcpConnection::BecomeOpen(const tcp::Secrets& secrets) {
  state_ = State::kOpen;
  if (secrets.encrypted) {
    const tcp::ConnectionKeys keys = tcp::KeysOf(secrets, challenge_, hello_);
    stream_.Seal(dialled_ ? keys.to_acceptor : keys.to_dialer,
                 dialled_ ? keys.to_dialer : keys.to_acceptor);
  }
  group_->OnOpen(peer_, this);
}

bool TcpConnection::OnChallenge(const tcp::Challenge& challenge) {
  if (challenge.magic != tcp::kMagic) return false;
  challenge_ = challenge;
  hello_ = tcp::MakeHello(SecretsOf(*group_, peer_), challenge);
  state_ = State::kAwaitsAnswer;
  Queue(hello_);
  return true;
}

bool TcpConnection::OnHello(const tcp::DialerHello& hello) {
  if (hello.magic != tcp::kMagic) return false;
  tcp::Answer answer;
  TcpGroup* const group = groups_->FindGroup(hello.acceptor, answer.code);
  const int peer = group == nullptr ? -1 : group->PeerOf(hello.dialer);
  if (group != nullptr) answer.code = tcp::Code::kRefused;
  const bool wanted = peer >= 0 && group->wants(peer);
  if (peer >= 0 && !wanted) answer.code = tcp::Code::kLeft;
  const tcp::Secrets secrets = wanted ? SecretsOf(*group, peer) : tcp::Secrets();
  const bool proved = wanted && tcp::Holds(hello, secrets, challenge_);
  if (proved) answer = tcp::MakeAnswer(secrets, challenge_, hello);
  Queue(answer);
  // A dialer that has not proved itself gets the answer; nothing else that it sends is read.
  if (!proved) {
    stream_.Write();
    return false;
  }
  hello_ = hello;
  group_ = group;
  peer_ = peer;
  BecomeOpen(secrets);
  return true;
}

bool TcpConnection::OnAnswer(const tcp::Answer& answer) {
  answer_ = answer.code;
  if (answer.code != tcp::Code::kAccepted) return false;
  const tcp::Secrets secrets = SecretsOf(*group_, peer_);
  if (!tcp::Holds(answer, secrets, challenge_, hello_)) {
    answer_ = tcp::Code::kRefused;
    return false;
  }
  BecomeOpen(secrets);
  return true;
}

}  // namespace remesh::worker
