// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/testing/memory_transport.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "worker/transport/peer_table.h"
#include "worker/transport/testing/memory_hub.h"

namespace remesh::worker {

class MemoryGroup : public PeerGroup {
 public:
  MemoryGroup(std::shared_ptr<MemoryFabric::Hub> hub, MemoryTransport* transport, int self,
              std::vector<Peer> peers)
      : hub_(std::move(hub)) {
    state_.transport = transport;
    state_.self = self;
    state_.peers = std::move(peers);
    for (size_t i = 0; i < state_.peers.size(); ++i) {
      state_.peer_of_token[state_.peers[i].token] = static_cast<int>(i);
    }
  }
  ~MemoryGroup() override { REMESH_CHECK(quiesced()); }

  MemoryGroupState& state() { return state_; }

  void Send(int peer, const MessageTag& tag, std::span<const std::byte> data, Done done) override;
  void Receive(int peer, const MessageTag& tag, std::span<std::byte> buffer, Done done) override;
  void Abort() override;
  bool quiesced() const override {
    absl::MutexLock lock(&hub_->mutex);
    return state_.aborted && state_.unfinished == 0;
  }

 private:
  // Counts the operation. Returns false if it has ended at once, with `done` taken.
  bool Begin(int peer, Done& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(hub_->mutex);

  const std::shared_ptr<MemoryFabric::Hub> hub_;
  MemoryGroupState state_;
};

bool MemoryGroup::Begin(int peer, Done& done) {
  REMESH_CHECK(peer >= 0 && static_cast<size_t>(peer) < state_.peers.size());
  ++state_.unfinished;
  absl::Status status = state_.aborted ? absl::CancelledError("the peer group was aborted")
                                       : hub_->CheckPeer(state_.peers[peer]);
  if (status.ok()) return true;
  state_.transport->End(state_, std::move(done), std::move(status));
  return false;
}

void MemoryGroup::Send(int peer, const MessageTag& tag, std::span<const std::byte> data,
                       Done done) {
  absl::MutexLock lock(&hub_->mutex);
  if (!Begin(peer, done)) return;
  MemoryTransport* target = hub_->transports.at(state_.peers[peer].address);
  const int64_t due = target->progress_calls_ + target->delay_;
  const bool added =
      state_.sends.try_emplace({peer, tag}, MemoryGroupState::Outgoing{data, due, std::move(done)})
          .second;
  REMESH_CHECK(added);
  target->notices_.push_back({state_.token(), state_.peers[peer].token, tag, due});
}

void MemoryGroup::Receive(int peer, const MessageTag& tag, std::span<std::byte> buffer, Done done) {
  absl::MutexLock lock(&hub_->mutex);
  if (!Begin(peer, done)) return;
  const bool added =
      state_.receives.try_emplace({peer, tag}, MemoryGroupState::Incoming{buffer, std::move(done)})
          .second;
  REMESH_CHECK(added);
  state_.transport->notices_.push_back({state_.peers[peer].token, state_.token(), tag, 0});
}

void MemoryGroup::Abort() {
  absl::MutexLock lock(&hub_->mutex);
  if (state_.aborted) return;
  state_.aborted = true;
  hub_->EndAll(state_, -1, absl::CancelledError("the peer group was aborted"));
  hub_->groups.erase(state_.token());
  hub_->closed.insert(state_.token());
  hub_->FailOperationsWithLost();
}

absl::Status MemoryFabric::Hub::CheckPeer(const Peer& peer) const {
  if (!transports.contains(peer.address)) return PeerLost(peer, "no worker has this address");
  if (closed.contains(peer.token)) return PeerLost(peer, "it left the attempt");
  return absl::OkStatus();
}

void MemoryFabric::Hub::FailOperationsWithLost() {
  for (auto& [token, group] : groups) {
    if (group->transport->killed_) continue;
    for (size_t i = 0; i < group->peers.size(); ++i) {
      const absl::Status status = CheckPeer(group->peers[i]);
      if (!status.ok()) EndAll(*group, static_cast<int>(i), status);
    }
  }
}

void MemoryFabric::Hub::EndAll(MemoryGroupState& group, int peer, const absl::Status& status) {
  auto end = [&](auto& operations) {
    for (auto it = operations.begin(); it != operations.end();) {
      const auto current = it++;
      if (peer != -1 && current->first.first != peer) continue;
      group.transport->End(group, std::move(current->second.done), status);
      operations.erase(current);
    }
  };
  end(group.sends);
  end(group.receives);
}

void MemoryFabric::Hub::Deliver(const MemoryNotice& notice, const MemoryTransport& at) {
  const auto from = groups.find(notice.from), to = groups.find(notice.to);
  if (from == groups.end() || to == groups.end() || to->second->transport != &at) return;
  MemoryGroupState &sender = *from->second, &receiver = *to->second;
  if (sender.transport->killed_) return;
  const auto target = sender.peer_of_token.find(notice.to);
  if (target == sender.peer_of_token.end()) return;
  const auto send = sender.sends.find({target->second, notice.tag});
  if (send == sender.sends.end() || send->second.due > at.progress_calls_) return;
  const auto source = receiver.peer_of_token.find(notice.from);
  absl::Status status;
  if (source == receiver.peer_of_token.end()) {
    ++refused;
    status = PeerLost(sender.peers[target->second], "it refused the token");
  } else {
    const auto receive = receiver.receives.find({source->second, notice.tag});
    if (receive == receiver.receives.end()) return;
    const auto data = send->second.data;
    const auto buffer = receive->second.buffer;
    if (data.size() != buffer.size()) {
      status = SizesDiffer(receiver.peers[source->second], notice.tag, data.size(), buffer.size());
    } else if (!data.empty()) {
      std::memcpy(buffer.data(), data.data(), data.size());
    }
    receiver.transport->End(receiver, std::move(receive->second.done), status);
    receiver.receives.erase(receive);
  }
  sender.transport->End(sender, std::move(send->second.done), status);
  sender.sends.erase(send);
}

MemoryTransport::~MemoryTransport() {
  absl::MutexLock lock(&hub_->mutex);
  for (const auto& [token, group] : hub_->groups) REMESH_CHECK(group->transport != this);
  if (killed_) return;
  hub_->transports.erase(address_);
  hub_->FailOperationsWithLost();
}

absl::StatusOr<std::unique_ptr<PeerGroup>> MemoryTransport::Open(int self,
                                                                 std::vector<Peer> peers) {
  RETURN_IF_ERROR(ValidatePeerTable(self, peers));
  auto group = std::make_unique<MemoryGroup>(hub_, this, self, std::move(peers));
  absl::MutexLock lock(&hub_->mutex);
  MemoryGroupState& state = group->state();
  REMESH_CHECK(hub_->groups.try_emplace(state.token(), &state).second);
  return group;
}

void MemoryTransport::End(MemoryGroupState& group, PeerGroup::Done done, absl::Status status) {
  ended_.push_back({&group, std::move(done), std::move(status)});
}

bool MemoryTransport::Progress() {
  std::deque<Ended> ended;
  {
    absl::MutexLock lock(&hub_->mutex);
    if (!killed_) {
      ++progress_calls_;
      // Notices that come in during this loop wait for the next call.
      for (size_t left = notices_.size(); left > 0; --left) {
        MemoryNotice notice = std::move(notices_.front());
        notices_.pop_front();
        if (notice.due > progress_calls_) {
          notices_.push_back(std::move(notice));
        } else {
          hub_->Deliver(notice, *this);
        }
      }
    }
    ended.swap(ended_);
  }
  for (Ended& operation : ended) {
    {
      absl::MutexLock lock(&hub_->mutex);
      --operation.group->unfinished;
    }
    operation.done(std::move(operation.status));  // may destroy the group
  }
  return !ended.empty();
}

void MemoryTransport::Wait(std::chrono::milliseconds timeout) {
  absl::MutexLock lock(&hub_->mutex);
  hub_->mutex.AwaitWithTimeout(absl::Condition(this, &MemoryTransport::HasWork),
                               absl::FromChrono(timeout));
  woken_ = false;
}

void MemoryTransport::Wake() {
  absl::MutexLock lock(&hub_->mutex);
  woken_ = true;
}

MemoryFabric::MemoryFabric() : hub_(std::make_shared<Hub>()) {}

std::unique_ptr<Transport> MemoryFabric::NewTransport(std::string address) {
  auto transport = std::make_unique<MemoryTransport>(hub_, address);
  absl::MutexLock lock(&hub_->mutex);
  REMESH_CHECK(hub_->transports.try_emplace(std::move(address), transport.get()).second);
  return transport;
}

void MemoryFabric::Kill(std::string_view address) {
  absl::MutexLock lock(&hub_->mutex);
  const auto it = hub_->transports.find(std::string(address));
  if (it == hub_->transports.end()) return;
  it->second->killed_ = true;
  hub_->transports.erase(it);
  hub_->FailOperationsWithLost();
}

void MemoryFabric::SetDelay(std::string_view address, int progress_calls) {
  absl::MutexLock lock(&hub_->mutex);
  hub_->transports.at(std::string(address))->delay_ = progress_calls;
}

int64_t MemoryFabric::refused() const {
  absl::MutexLock lock(&hub_->mutex);
  return hub_->refused;
}

}  // namespace remesh::worker
