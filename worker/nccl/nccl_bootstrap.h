// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "worker/nccl/nccl_types.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

// Lets the hosts that will exchange by NCCL find each other, over an ordinary peer group of the
// attempt, whose peers have proved who they are. Every host tells the first one its version of
// NCCL; the first few hosts add a unique id. When all have, the first host tells everyone all ids.
// So no host enters NCCL, which waits for an absent one without an error, before all are there.
// Uses messages of window 0xffffffff. The data thread calls everything, and the peer group's
// callbacks run on it.
class NcclBootstrap {
 public:
  static constexpr uint32_t kWindow = 0xffffffff;

  // place: index of this host among the hosts with ranks. hosts: rising indices, in the group, of
  // those with ranks that this host knows, itself included: all of them if it is the first, and
  // always the first. names: of all hosts of the group. `group` must live until it is quiesced; the
  // bootstrap need not. on_change: called when a callback has run, perhaps after the bootstrap is
  // gone.
  NcclBootstrap(PeerGroup* group, int self, int place, std::vector<int> hosts,
                std::vector<std::string> names, std::function<void()> on_change);

  // Says hello, once. `ids` unique ids are wanted in all, one from each of as many hosts; `own` is
  // this host's.
  void Start(int version, int ids, const std::optional<nccl::UniqueId>& own);
  // Whether this host makes one of the `ids` ids.
  bool MakesId(int ids) const;

  // Fails the bootstrap if `peer` is lost. May be called any number of times.
  void Watch(int peer);

  // Why the bootstrap failed: a peer is lost, or has another version of NCCL
  // (NCCL_VERSIONS_DIFFER).
  const absl::Status& status() const { return state_->status; }
  // All ids, once they have arrived.
  std::optional<std::vector<nccl::UniqueId>> ids() const;
  // UNAVAILABLE, reason NCCL_TIMEOUT, which names the absent hosts, as far as this host knows.
  absl::Status TimedOut() const;

 private:
  struct Hello {
    int32_t version = 0;
    int32_t zero = 0;
    nccl::UniqueId id{};
  };
  // Outlives the bootstrap: the peer group's callbacks refer to it, and its operations to the
  // buffers.
  struct State {
    absl::Status status;
    std::vector<Hello> hellos;  // by index in hosts_
    std::vector<bool> present;  // by index in hosts_
    int absent = 0;
    std::vector<nccl::UniqueId> ids;
    bool complete = false;
    std::byte never{};  // buffer of the message that is never sent
    std::function<void()> on_change;
  };

  using Next = std::function<void(const std::shared_ptr<State>&)>;

  // A callback that keeps the state alive, and records an error or else calls `then`.
  PeerGroup::Done Then(Next then) const;
  // A callback that compares all hellos and tells all hosts the ids.
  Next Teller() const;
  void StartFirst();
  void StartOther();

  PeerGroup* const group_;
  const int self_;
  const int place_;
  const std::vector<int> hosts_;
  const std::vector<std::string> names_;
  size_t own_ = 0;  // index of this host in hosts_
  absl::flat_hash_set<int> watched_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace remesh::worker
