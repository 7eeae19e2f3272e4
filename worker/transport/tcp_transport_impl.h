// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/fd.h"
#include "base/text/transport_names.h"
#include "worker/transport/tcp_connection.h"
#include "worker/transport/tcp_group.h"
#include "worker/transport/tcp_transport.h"

namespace remesh::worker {

// See NewTcpTransport(). Listens, dials, and drives the connections of all groups by epoll(7).
class TcpTransport final : public Transport, public TcpConnection::Groups {
 public:
  TcpTransport(TcpOptions options, SocketAddress bind_address);
  ~TcpTransport() override;
  // UNAVAILABLE if it cannot listen.
  absl::Status Listen();

  bool gathers() const override { return true; }
  bool encrypts() const override { return true; }
  std::string_view name() const override { return kTcpTransport; }
  std::string address() const override { return address_; }
  absl::StatusOr<std::unique_ptr<PeerGroup>> Open(int self, std::vector<Peer> peers) override;
  bool Progress() override;
  void Wait(std::chrono::milliseconds timeout) override;
  void Wake() override;

  // For groups.
  void Dial(TcpGroup* group, int peer, TcpConnection::Tries tries = {});
  // Closes the connection without telling its group.
  void Close(TcpConnection* connection);
  void End(TcpGroup* group, PeerGroup::Done done, absl::Status status);
  void OnAborted(TcpGroup* group);

 private:
  using TimePoint = TcpConnection::TimePoint;
  struct Redial {
    TimePoint when;
    TcpGroup* group;
    int peer;
    TcpConnection::Tries tries;
  };
  struct Ended {
    TcpGroup* group;
    PeerGroup::Done done;
    absl::Status status;
  };
  TcpGroup* FindGroup(const tcp::TokenId& id, tcp::Code& code) override;
  void OnOutput(TcpConnection* connection) override;

  TcpConnection* Add(std::unique_ptr<TcpConnection> connection);
  void Watch(TcpConnection* connection);
  bool Accept();
  void MakeRoom(const std::string& host);
  void PauseListener();
  void Handle(TcpConnection* connection, uint32_t events);
  // Acts on a stream that has closed or has run out of time.
  void OnClosed(TcpConnection* connection);
  bool Flush();
  bool RunTimers();
  void EndHandshake(TcpConnection* connection, TimePoint now);
  bool RunEnded();
  TimePoint NextTimer() const;

  const TcpOptions options_;
  const SocketAddress bind_address_;
  std::string address_;
  Fd listener_;
  Fd epoll_;
  Fd wake_;
  int descriptors_max_ = 0;
  std::minstd_rand random_{std::random_device{}()};  // for pauses
  TimePoint listener_paused_until_{};                // 0: it is not
  std::map<tcp::TokenId, TcpGroup*> groups_;
  std::deque<tcp::TokenId> left_;  // the last groups that are over
  // Every open connection, with the events that epoll watches for.
  absl::flat_hash_map<TcpConnection*, std::pair<std::unique_ptr<TcpConnection>, uint32_t>> open_;
  std::list<TcpConnection*> unproved_;                  // in order of arrival
  std::vector<std::unique_ptr<TcpConnection>> closed_;  // kept until nothing refers to them
  std::vector<TcpConnection*> output_;
  std::vector<Redial> redials_;
  std::deque<Ended> ended_;
};

}  // namespace remesh::worker
