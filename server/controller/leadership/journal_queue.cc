// SPDX-License-Identifier: Apache-2.0
#include "server/controller/leadership/journal_queue.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace remesh::server {

void JournalQueue::Enqueue(Outbox& out) {
  std::vector<FollowUp> follow_ups = out.TakeFollowUps();
  auto then = follow_ups.begin();
  for (Action& action : out.actions()) {
    Persist* persist = std::get_if<Persist>(&action);
    if (persist == nullptr || persist->sequence != 0) continue;
    persist->sequence = next_++;
    waiting_[persist->sequence] = std::move(*then++);
  }
}

std::vector<FollowUp> JournalQueue::OnPersisted(const Persisted& persisted) {
  full_ = persisted.full;
  durable_ = std::max(durable_, persisted.sequence);
  std::vector<FollowUp> durable;
  const auto end = waiting_.upper_bound(persisted.sequence);
  for (auto it = waiting_.begin(); it != end; ++it) durable.push_back(std::move(it->second));
  waiting_.erase(waiting_.begin(), end);
  return durable;
}

absl::Status JournalQueue::CheckRoom() const {
  if (!full_) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "the disk of the journal is full: only what has begun is brought to its end",
                   {.reason = "JOURNAL_FULL", .metadata = {}});
}

}  // namespace remesh::server
