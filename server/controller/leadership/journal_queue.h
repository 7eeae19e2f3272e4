// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "server/controller/values/outbox.h"

namespace remesh::server {

// The transactions on their way to the disk, and what follows when they are there. The first of the
// controller's machines: it knows no other. Not thread-safe.
class JournalQueue {
 public:
  // `durable`: the last transaction on disk.
  explicit JournalQueue(uint64_t durable) : next_(durable + 1), durable_(durable) {}

  // Numbers the transactions of `out`, in order.
  void Enqueue(Outbox& out);
  // Returns the follow-ups of all transactions that became durable, in the order of the
  // transactions.
  std::vector<FollowUp> OnPersisted(const Persisted& persisted);

  uint64_t durable() const { return durable_; }
  bool full() const { return full_; }
  // RESOURCE_EXHAUSTED (JOURNAL_FULL): nothing new begins while the journal's disk is full; the
  // remaining room is for decisions.
  absl::Status CheckRoom() const;

 private:
  uint64_t next_;
  uint64_t durable_;
  bool full_ = false;
  std::map<uint64_t, FollowUp> waiting_;  // by transaction
};

}  // namespace remesh::server
