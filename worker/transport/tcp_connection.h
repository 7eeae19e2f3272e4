// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "worker/transport/tcp_group.h"
#include "worker/transport/tcp_handshake.h"
#include "worker/transport/tcp_stream.h"

namespace remesh::worker {

// A TCP connection of a peer group, from its handshake on. It reads nothing but the handshake
// before the other side has proved that it knows the attempt's tokens.
class TcpConnection final : private tcp::Stream::Reader {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Finds the groups that dialling peers ask for.
  class Groups {
   public:
    virtual ~Groups() = default;
    // nullptr if no such group is open; `code` then says whether it ever was.
    virtual TcpGroup* FindGroup(const tcp::TokenId& id, tcp::Code& code) = 0;
    // `connection` has something to write.
    virtual void OnOutput(TcpConnection* connection) = 0;
  };

  // A connection accepted from `host`: sends a challenge.
  TcpConnection(Groups* groups, Fd fd, std::string host, TimePoint deadline);
  // Counts the earlier connections to a peer.
  struct Tries {
    int all = 0;
    int broken = 0;  // that ended without an answer
    TimePoint since{};
  };
  // A dialled connection, on its way to a peer.
  TcpConnection(Groups* groups, Fd fd, TcpGroup* group, int peer, TimePoint deadline, Tries tries);

  bool dialled() const { return dialled_; }
  bool proved() const { return state_ == State::kOpen; }
  const std::string& host() const { return host_; }  // of an accepted one
  TimePoint deadline() const { return deadline_; }   // of the handshake
  void Postpone(TimePoint deadline) { deadline_ = deadline; }
  int step() const { return static_cast<int>(state_); }  // rises with each step of the handshake
  TcpGroup* group() const { return group_; }  // null until an accepted connection is proved
  int peer() const { return peer_; }
  // What a dialled peer answered; nullopt before it has.
  std::optional<tcp::Code> answer() const { return answer_; }

  const Tries& tries() const { return tries_; }  // before this connection

  tcp::Stream& stream() { return stream_; }
  bool connecting() const { return state_ == State::kConnecting; }
  // The kernel reports how dialling went.
  void OnConnected();
  bool Read() { return stream_.Read(*this); }

  template <typename Head>
  void Queue(const Head& head, ConstRuns body = {}, absl::AnyInvocable<void()> written = nullptr) {
    stream_.Queue(head, std::move(body), std::move(written));
    groups_->OnOutput(this);
  }

 private:
  enum class State { kConnecting, kAwaitsChallenge, kAwaitsHello, kAwaitsAnswer, kOpen };

  size_t head_bytes() const override;
  bool OnHead(std::span<const std::byte> head, Runs& body) override;
  void OnBody() override { group_->OnBody(peer_); }
  tcp::Secrets SecretsOf(const TcpGroup& group, int peer) const;
  // Both sides have proved themselves.
  void BecomeOpen(const tcp::Secrets& secrets);
  bool OnChallenge(const tcp::Challenge& challenge);
  bool OnHello(const tcp::DialerHello& hello);
  bool OnAnswer(const tcp::Answer& answer);

  Groups* const groups_;
  tcp::Stream stream_;
  const bool dialled_;
  const std::string host_;
  TimePoint deadline_;
  TcpGroup* group_ = nullptr;
  int peer_ = -1;
  const Tries tries_;
  State state_;
  tcp::Challenge challenge_;
  tcp::DialerHello hello_;
  std::optional<tcp::Code> answer_;
};

}  // namespace remesh::worker
