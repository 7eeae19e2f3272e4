// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucp/api/ucp.h>

#include <deque>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "worker/transport/socket_address.h"
#include "worker/transport/transport.h"
#include "worker/transport/ucx_connection.h"

namespace remesh::worker {

// A peer group over UCX. It pairs messages with receives, and knows which peers are lost.
// UcxTransport::Progress() reports everything that UCX does with the group by the On...() calls.
class UcxGroup : public PeerGroup {
 public:
  // `addresses` are those of `peers`.
  UcxGroup(UcxTransport* transport, int self, std::vector<Peer> peers,
           std::vector<SocketAddress> addresses);
  ~UcxGroup() override;

  void Send(int peer, const MessageTag& tag, std::span<const std::byte> data, Done done) override;
  void Receive(int peer, const MessageTag& tag, std::span<std::byte> buffer, Done done) override;
  void Abort() override;
  bool quiesced() const override { return aborted_ && unfinished_ == 0 && connections_ == 0; }

  const AttemptToken& token() const { return peers_[self_].peer.token; }

  // A peer has dialled. Returns false if it must be refused.
  bool OnHello(UcxConnection* connection, const AttemptToken& from);
  // The dialled peer has accepted.
  void OnAccept(UcxConnection* connection);
  // A message has arrived: its bytes if `rendezvous` is false, else a descriptor with which to
  // fetch them. Returns what the UCX handler returns.
  ucs_status_t OnMessage(UcxConnection* connection, const MessageTag& tag, void* data, size_t size,
                         bool rendezvous);
  // The peer has received ucx::kTakenBytes more of the bytes that were sent ahead.
  void OnTaken(UcxConnection* connection);
  void OnConnectionLost(UcxConnection* connection, std::string_view why);
  void OnClosed() { --connections_; }
  // An operation's callback begins.
  void OnCallback() { --unfinished_; }
  // UCX has finished the operation.
  void OnTransferred(std::unique_ptr<UcxOperation> operation, ucs_status_t status);

 private:
  using Operation = std::unique_ptr<UcxOperation>;
  // A message without its Receive(): the bytes, or the descriptor and its size.
  struct Descriptor {
    void* data;
    size_t size;
  };
  using Held = std::variant<std::vector<std::byte>, Descriptor>;

  struct PeerState {
    Peer peer;
    SocketAddress address;
    UcxConnection* dialled = nullptr;
    UcxConnection* accepted = nullptr;
    absl::Status lost;              // OK while the peer is not lost
    std::deque<Operation> waiting;  // sends before the peer has accepted
    absl::flat_hash_map<MessageTag, Operation> receives;
    absl::flat_hash_map<MessageTag, Held> held;
    size_t held_bytes = 0;
    size_t ahead_bytes = 0;  // of short messages that the peer has not reported as received
    size_t taken_bytes = 0;  // of short messages received here, and not yet reported
  };

  // Counts the operation, and makes sure that the peer is dialled. Null if the operation has ended
  // at once.
  Operation Begin(int peer, const MessageTag& tag, std::byte* bytes, size_t size, Done done);
  void End(Operation operation, absl::Status status);
  void Transmit(Operation operation);
  void Fetch(Operation operation, void* descriptor);
  // Leaves the operation to the callback of the request, unless UCX has finished it at once.
  void Await(Operation operation, void* request);
  ucs_status_t Hold(UcxConnection* connection, const MessageTag& tag, void* data, size_t size,
                    bool rendezvous);
  // Counts a short message as received, and reports to the peer now and then.
  void Take(PeerState& state, size_t size);
  // Ends the operations that wait for the peer, and closes its connections.
  void Drop(PeerState& state, const absl::Status& status);

  UcxTransport* const transport_;
  const int self_;
  std::vector<PeerState> peers_;
  absl::flat_hash_map<AttemptToken, int> peer_of_token_;
  bool aborted_ = false;
  int unfinished_ = 0;   // callbacks that have not begun
  int connections_ = 0;  // not closed yet
};

}  // namespace remesh::worker
