// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/nccl_group.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/check.h"
#include "base/int_math.h"

namespace remesh::worker {
namespace {

std::vector<int> HostsOf(const std::vector<NcclRank>& ranks) {
  std::set<int> hosts;
  for (const NcclRank& rank : ranks) hosts.insert(rank.host);
  return {hosts.begin(), hosts.end()};
}

std::vector<NcclLocal> LocalsOf(const NcclSetup& setup) {
  std::vector<NcclLocal> locals;
  for (const NcclRank& rank : setup.ranks) {
    if (rank.host == setup.self) locals.push_back({rank.rank, rank.local_device});
  }
  REMESH_CHECK(!locals.empty());
  return locals;
}

int IdsFor(const NcclSetup& setup) {
  if (setup.api->init_rank_scalable == nullptr) return 1;
  const int64_t ids = CeilDiv(setup.whole.ranks, setup.options.ranks_per_id);
  return static_cast<int>(std::min<int64_t>(ids, setup.whole.hosts));
}

std::chrono::milliseconds ConnectTimeout(const NcclSetup& setup) {
  return setup.options.connect_timeout + setup.whole.ranks * setup.options.connect_timeout_per_rank;
}

std::unique_ptr<NcclLink> NewLink(const NcclSetup& setup, bool makes_id) {
  auto runner =
      std::make_unique<NcclRunner>(setup.api, setup.streams, setup.options.limits,
                                   setup.whole.ranks, LocalsOf(setup), ConnectTimeout(setup));
  return std::make_unique<NcclLink>(setup.api, std::move(runner), makes_id,
                                    setup.options.abort_timeout / 2, setup.notify);
}

}  // namespace

NcclGroup::NcclGroup(NcclSetup setup, std::unique_ptr<NcclLink> made)
    : setup_(std::move(setup)),
      // Even then all hosts say hello: no host enters NCCL before all are there, and hosts that
      // exchange watch each other.
      ids_(made != nullptr ? 0 : IdsFor(setup_)),
      connect_by_(std::chrono::steady_clock::now() + ConnectTimeout(setup_)),
      bootstrap_(setup_.bootstrap, setup_.self, setup_.whole.place, HostsOf(setup_.ranks),
                 setup_.hosts, setup_.notify),
      link_(ids_ == 0 ? std::move(made) : NewLink(setup_, bootstrap_.MakesId(ids_))) {
  int locals = 0;
  for (const NcclRank& rank : setup_.ranks) {
    const Place place{rank.rank, rank.host, rank.host == setup_.self ? locals++ : -1};
    REMESH_CHECK(places_.try_emplace(rank.device, place).second);
  }
}

NcclGroup::~NcclGroup() { REMESH_CHECK(quiesced()); }

void NcclGroup::Expect(std::vector<int32_t> operations) { windows_.Expect(std::move(operations)); }

void NcclGroup::Send(int peer, const MessageTag& tag, std::span<const std::byte> data, Done done) {
  Add(true, peer, tag, data, std::move(done));
}

void NcclGroup::Receive(int peer, const MessageTag& tag, std::span<std::byte> buffer, Done done) {
  Add(false, peer, tag, buffer, std::move(done));
}

void NcclGroup::Add(bool send, int peer, const MessageTag& tag, std::span<const std::byte> memory,
                    Done done) {
  ++unfinished_;
  if (aborted_) return End(std::move(done), absl::CancelledError("the peer group was aborted"));
  if (const absl::Status status = link_->status(); !status.ok())
    return End(std::move(done), status);
  const Place from = places_.at(tag.from_device), to = places_.at(tag.to_device);
  const Place own = send ? from : to, other = send ? to : from;
  REMESH_CHECK(own.local >= 0 && other.host == peer);
  REMESH_CHECK(own.rank != other.rank && !memory.empty());
  bootstrap_.Watch(peer);
  // Only a receive writes here, and it got a span of bytes that may be written.
  auto* address = const_cast<std::byte*>(memory.data());
  windows_.Add(tag.window, {send, own.local, other.rank, address, memory.size()}, std::move(done));
}

void NcclGroup::End(Done done, absl::Status status) {
  ended_.emplace_back(std::move(done), std::move(status));
}

bool NcclGroup::Progress() {
  const bool connected = link_ != nullptr && Connect();
  if (link_ != nullptr) {
    StartWindows();
    CollectEnded();
    WatchAbort();
  }
  std::vector<std::pair<Done, absl::Status>> ended = std::exchange(ended_, {});
  for (auto& [done, status] : ended) {
    --unfinished_;
    done(std::move(status));  // the last one may destroy this
  }
  return connected || !ended.empty();
}

bool NcclGroup::Connect() {
  if (phase_ == Phase::kResting) return false;
  // The time to connect begins when the group may connect.
  const bool waits = phase_ == Phase::kMakeId && setup_.may_connect && !setup_.may_connect();
  if (waits) connect_by_ = std::chrono::steady_clock::now() + ConnectTimeout(setup_);
  CheckBootstrap();
  if (phase_ == Phase::kConnected || !link_->status().ok()) return false;
  if (phase_ == Phase::kMakeId) {
    std::optional<nccl::UniqueId> own;
    if (bootstrap_.MakesId(ids_)) {
      own = link_->made_id();
      if (!own.has_value()) return false;
    }
    if (waits) return false;
    bootstrap_.Start(setup_.api->version, ids_, own);
    phase_ = Phase::kGather;
    return true;
  }
  const auto ids = bootstrap_.ids();
  if (!ids.has_value()) return false;
  if (ids_ > 0) link_->Connect(*ids);
  phase_ = Phase::kConnected;
  return true;
}

void NcclGroup::CheckBootstrap() {
  // No peer can fail this group any more, and a peer that rests already has closed its end.
  if (finished()) return;
  const absl::Status& status = bootstrap_.status();
  if (absl::IsCancelled(status))
    return link_->Stop(absl::UnavailableError("the peer group that NCCL connects by was aborted"));
  if (!status.ok()) return link_->Stop(status);
  const bool late = std::chrono::steady_clock::now() > connect_by_;
  if (phase_ != Phase::kConnected && late && !bootstrap_.ids().has_value())
    link_->Stop(bootstrap_.TimedOut());
}

void NcclGroup::StartWindows() {
  if (phase_ != Phase::kConnected || !link_->status().ok()) return;
  while (std::optional<NcclWindow> next = windows_.TakeNext()) {
    next->timeout = setup_.options.window_timeout;
    link_->Post(*std::move(next));
  }
}

void NcclGroup::CollectEnded() {
  for (NcclWindow& window : link_->TakeDone()) {
    for (Done& done : window.done) End(std::move(done), absl::OkStatus());
  }
  if (!link_->gone()) return;
  const absl::Status status =
      aborted_ ? absl::CancelledError("the peer group was aborted") : link_->status();
  for (NcclWindow& window : link_->TakeRest()) {
    for (Done& done : window.done) End(std::move(done), status);
  }
  for (Done& done : windows_.TakeRest()) End(std::move(done), status);
}

void NcclGroup::WatchAbort() {
  if (stuck_ || !link_->stuck(setup_.options.abort_timeout)) return;
  stuck_ = true;
  setup_.on_stuck();
}

bool NcclGroup::finished() const {
  return phase_ == Phase::kConnected && unfinished_ == 0 && windows_.all_taken();
}

// Why another attempt may use the communicators, and nothing of this one reaches its memory: an
// operation of ours has ended when our stream was past its kernel, and the operations of every host
// have ended. So no pair has a message on its way: each message was received whole, or its receive
// would not have ended. NCCL keeps no address beyond an operation, and it pairs a later send only
// with a later receive, as all earlier ones are paired.
bool NcclGroup::Rest() {
  const bool clean = !aborted_ && finished() && link_->connected() && link_->status().ok();
  if (!clean) Abort();
  if (clean) phase_ = Phase::kResting;
  return clean;
}

std::unique_ptr<NcclLink> NcclGroup::TakeLink() {
  if (phase_ != Phase::kResting || aborted_) return nullptr;
  aborted_ = true;
  return std::move(link_);
}

void NcclGroup::Abort() {
  aborted_ = true;
  if (link_ != nullptr) link_->Stop(absl::CancelledError("the peer group was aborted"));
}

bool NcclGroup::quiesced() const {
  return aborted_ && unfinished_ == 0 && (link_ == nullptr || link_->gone());
}

}  // namespace remesh::worker
