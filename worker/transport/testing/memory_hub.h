// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "worker/transport/testing/memory_transport.h"

namespace remesh::worker {

class MemoryTransport;

// The unfinished operations of one group. Guarded by the hub's mutex, like all that is declared
// here.
struct MemoryGroupState {
  using Key = std::pair<int, MessageTag>;  // peer
  struct Outgoing {
    std::span<const std::byte> data;
    int64_t due;  // the receiving transport's Progress() count from which on the message is there
    PeerGroup::Done done;
  };
  struct Incoming {
    std::span<std::byte> buffer;
    PeerGroup::Done done;
  };

  MemoryTransport* transport = nullptr;
  int self = 0;
  std::vector<Peer> peers;
  absl::flat_hash_map<AttemptToken, int> peer_of_token;
  absl::flat_hash_map<Key, Outgoing> sends;
  absl::flat_hash_map<Key, Incoming> receives;
  bool aborted = false;
  int unfinished = 0;  // callbacks that have not begun

  const AttemptToken& token() const { return peers[self].token; }
};

// Says that the message `tag` from group `from` to group `to` may be complete. The receiving
// transport looks into it.
struct MemoryNotice {
  AttemptToken from;
  AttemptToken to;
  MessageTag tag;
  int64_t due;
};

// All that the transports of a fabric share. A message is copied once, from the sender's memory
// into the receiver's, when both have posted it and the receiver makes progress.
class MemoryFabric::Hub {
 public:
  absl::Mutex mutex;
  absl::flat_hash_map<std::string, MemoryTransport*> transports ABSL_GUARDED_BY(mutex);  // living
  absl::flat_hash_map<AttemptToken, MemoryGroupState*> groups
      ABSL_GUARDED_BY(mutex);  // open, by their own token
  absl::flat_hash_set<AttemptToken> closed ABSL_GUARDED_BY(mutex);
  int64_t refused ABSL_GUARDED_BY(mutex) = 0;

  // Why `peer` cannot be reached; OK if it can.
  absl::Status CheckPeer(const Peer& peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Ends the operations of every group with peers that cannot be reached any more.
  void FailOperationsWithLost() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Ends the unfinished operations of `group` with `peer`, or all of them if `peer` is -1.
  void EndAll(MemoryGroupState& group, int peer, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Moves the message if both ends have posted it and it is due.
  void Deliver(const MemoryNotice& notice, const MemoryTransport& at)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

class MemoryTransport : public Transport {
 public:
  MemoryTransport(std::shared_ptr<MemoryFabric::Hub> hub, std::string address)
      : hub_(std::move(hub)), address_(std::move(address)) {}
  ~MemoryTransport() override;

  std::string_view name() const override { return "memory"; }
  std::string address() const override { return address_; }
  absl::StatusOr<std::unique_ptr<PeerGroup>> Open(int self, std::vector<Peer> peers) override;
  bool Progress() override;
  void Wait(std::chrono::milliseconds timeout) override;
  void Wake() override;

 private:
  friend class MemoryFabric;
  friend class MemoryFabric::Hub;
  friend class MemoryGroup;

  struct Ended {
    MemoryGroupState* group;
    PeerGroup::Done done;
    absl::Status status;
  };

  bool HasWork() const { return woken_ || !ended_.empty() || (!killed_ && !notices_.empty()); }
  void End(MemoryGroupState& group, PeerGroup::Done done, absl::Status status);

  const std::shared_ptr<MemoryFabric::Hub> hub_;
  const std::string address_;
  // Guarded by the hub's mutex.
  bool killed_ = false;
  bool woken_ = false;
  int delay_ = 0;
  int64_t progress_calls_ = 0;
  std::deque<MemoryNotice> notices_;
  std::deque<Ended> ended_;
};

}  // namespace remesh::worker
