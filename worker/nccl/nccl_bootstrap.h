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

// How hosts that will exchange by NCCL find each other, over an ordinary peer group of the attempt,
// whose peers have proved who they are. Every host tells the first one NCCL's version and, the
// first few, a unique id; when all have, the first one tells everyone all ids. So nobody enters
// NCCL, where one that is absent is only waited for, before all are there. Uses messages of window
// 0xffffffff. The data thread calls everything, and the peer group's callbacks run on it.
class NcclBootstrap {
 public:
  static constexpr uint32_t kWindow = 0xffffffff;

  // hosts: indices of those with ranks, rising, with this one. names: of all hosts of the attempt.
  // `group` lives until it is quiesced, this perhaps not. on_change: a callback has run; may be
  // called after this is gone.
  NcclBootstrap(PeerGroup* group, int self, std::vector<int> hosts, std::vector<std::string> names,
                std::function<void()> on_change);

  // Says hello: `ids` unique ids are wanted in all, one from each of as many hosts; `own` is ours.
  // Once.
  void Start(int version, int ids, const std::optional<nccl::UniqueId>& own);
  // Whether this host makes one of `ids` ids.
  bool MakesId(int ids) const;

  // Fails the bootstrap when `peer` is lost. Any number of times.
  void Watch(int peer);

  // Why it failed: a peer is lost, or has another version of NCCL (NCCL_VERSIONS_DIFFER).
  const absl::Status& status() const { return state_->status; }
  // All ids, once they are here.
  std::optional<std::vector<nccl::UniqueId>> ids() const;
  // UNAVAILABLE, reason NCCL_TIMEOUT: who is absent, as far as this host knows.
  absl::Status TimedOut() const;

 private:
  struct Hello {
    int32_t version = 0;
    int32_t zero = 0;
    nccl::UniqueId id{};
  };
  // Outlives this: the peer group's callbacks refer to it, and its operations to the buffers.
  struct State {
    absl::Status status;
    std::vector<Hello> hellos;  // of hosts
    std::vector<bool> present;  // of hosts
    int absent = 0;
    std::vector<nccl::UniqueId> ids;
    bool complete = false;
    std::byte never{};  // what nobody sends
    std::function<void()> on_change;
  };

  using Next = std::function<void(const std::shared_ptr<State>&)>;

  // A callback that keeps the state alive, notes an error and else does `then`.
  PeerGroup::Done Then(Next then) const;
  // Compares all hellos, and tells all hosts the ids.
  Next Teller() const;
  void StartFirst();
  void StartOther();

  PeerGroup* const group_;
  const int self_;
  const std::vector<int> hosts_;
  const std::vector<std::string> names_;
  size_t own_ = 0;  // this host's place among hosts_
  absl::flat_hash_set<int> watched_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace remesh::worker
