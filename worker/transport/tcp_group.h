// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "worker/transport/socket_address.h"
#include "worker/transport/tcp_handshake.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

class TcpConnection;
class TcpTransport;

namespace tcp {

// The head of a record between two hosts that have proved themselves. A message is sent only after
// its receiver has said where it goes. So nothing arrives that is not waited for, and no reader
// waits for room.
struct Frame {
  enum class Kind : uint32_t {
    kGrant = 1,   // acceptor to dialer: it waits for `tag`, which has `bytes`
    kData = 2,    // dialer to acceptor: the message; `bytes` of body follow
    kRefuse = 3,  // dialer to acceptor: the message has `bytes`, not what the grant says
  };
  MessageTag tag;
  uint64_t bytes = 0;
  Kind kind = Kind::kGrant;
  uint32_t zero = 0;
};
static_assert(sizeof(Frame) == 32);

}  // namespace tcp

// A peer group over TCP. It pairs messages with receives, and knows which peers are lost. For each
// peer with which it has an operation it dials a connection of its own, on which it sends. It
// receives on the connection that the peer has dialled. TcpTransport::Progress() makes the On...()
// calls.
class TcpGroup : public PeerGroup {
 public:
  // `addresses` are those of `peers`.
  TcpGroup(TcpTransport* transport, int self, std::vector<Peer> peers,
           std::vector<SocketAddress> addresses);
  ~TcpGroup() override;

  void Send(int peer, const MessageTag& tag, std::span<const std::byte> data, Done done) override {
    SendRuns(peer, tag, {data}, std::move(done));
  }
  void Receive(int peer, const MessageTag& tag, std::span<std::byte> buffer, Done done) override {
    ReceiveRuns(peer, tag, {buffer}, std::move(done));
  }
  void SendRuns(int peer, const MessageTag& tag, ConstRuns runs, Done done) override;
  void ReceiveRuns(int peer, const MessageTag& tag, Runs runs, Done done) override;
  void Abort() override;
  bool quiesced() const override { return aborted_ && unfinished_ == 0; }

  const AttemptToken& token() const { return peers_[self_].peer.token; }
  const Peer& peer(int index) const { return peers_[index].peer; }
  const SocketAddress& address(int index) const { return peers_[index].address; }
  // Index of the peer whose token has this id; -1 if there is none.
  int PeerOf(const tcp::TokenId& id) const;

  // Whether a connection to the peer is still of use.
  bool wants(int peer) const { return !aborted_ && peers_[peer].lost.ok(); }
  // A connection has proved itself.
  void OnOpen(int peer, TcpConnection* connection);
  // Returns false if the record breaks the rules.
  bool OnFrame(int peer, const TcpConnection& connection, const tcp::Frame& frame, Runs& body);
  void OnBody(int peer);
  void OnLost(int peer, std::string_view why);
  // An operation's callback begins.
  void OnCallback() { --unfinished_; }

 private:
  struct Outgoing {
    ConstRuns runs;
    Done done;
  };
  struct Incoming {
    Runs runs;
    uint64_t bytes;  // of all runs
    Done done;
  };
  struct PeerState {
    Peer peer;
    SocketAddress address;
    tcp::TokenId id;
    bool dialling = false;
    TcpConnection* dialled = nullptr;                    // on which we send
    TcpConnection* accepted = nullptr;                   // on which we receive
    absl::Status lost;                                   // OK while the peer is not lost
    absl::flat_hash_map<MessageTag, Outgoing> sends;     // not granted yet
    absl::flat_hash_map<MessageTag, uint64_t> grants;    // whose Send() is not posted yet
    absl::flat_hash_map<MessageTag, Done> being_sent;    // queued on the connection
    absl::flat_hash_map<MessageTag, Incoming> receives;  // posted
    MessageTag arriving;                                 // the message whose body is arriving
  };

  // Counts the operation, and makes sure that the peer is dialled. Returns false if the operation
  // has ended at once.
  bool Begin(PeerState& state, Done& done);
  void End(Done done, absl::Status status);
  // The receiver waits for `bytes` of the message.
  void Transmit(PeerState& state, const MessageTag& tag, Outgoing outgoing, uint64_t bytes);
  void Drop(PeerState& state, const absl::Status& status);

  TcpTransport* const transport_;
  const int self_;
  std::vector<PeerState> peers_;
  int64_t unfinished_ = 0;
  bool aborted_ = false;
};

}  // namespace remesh::worker
