// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/nccl_bootstrap.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"
#include "worker/nccl/nccl_api.h"

namespace remesh::worker {
namespace {

constexpr MessageTag kHello{.window = NcclBootstrap::kWindow, .index = 0};
constexpr MessageTag kIds{.window = NcclBootstrap::kWindow, .index = 1};
// This message is never sent: a receive of it ends when its peer is lost.
constexpr MessageTag kNever{.window = NcclBootstrap::kWindow, .index = 2};

template <typename T>
std::span<std::byte> BytesOf(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

absl::Status CheckVersions(const std::string& own, int own_version, const std::string& other,
                           int version) {
  if (version == own_version) return absl::OkStatus();
  const std::string own_name = NcclVersionName(own_version), name = NcclVersionName(version);
  return MakeError(
      absl::StatusCode::kUnavailable,
      absl::StrCat("host ", other, " has NCCL ", name, " and ", own, " has ", own_name,
                   ": all must have the same"),
      {"NCCL_VERSIONS_DIFFER",
       {{"host", other}, {"version", name}, {"other_host", own}, {"other_version", own_name}}});
}

}  // namespace

NcclBootstrap::NcclBootstrap(PeerGroup* group, int self, int place, std::vector<int> hosts,
                             std::vector<std::string> names, std::function<void()> on_change)
    : group_(group),
      self_(self),
      place_(place),
      hosts_(std::move(hosts)),
      names_(std::move(names)) {
  const auto own = std::find(hosts_.begin(), hosts_.end(), self);
  REMESH_CHECK(own != hosts_.end());
  own_ = own - hosts_.begin();
  REMESH_CHECK((own_ == 0) == (place_ == 0));
  state_->hellos.resize(hosts_.size());
  state_->present.resize(hosts_.size());
  state_->present[own_] = true;
  state_->absent = static_cast<int>(hosts_.size()) - 1;
  state_->on_change = std::move(on_change);
}

PeerGroup::Done NcclBootstrap::Then(Next then) const {
  return [state = state_, then = std::move(then)](absl::Status status) {
    if (status.ok()) {
      then(state);
    } else {
      state->status.Update(std::move(status));
    }
    state->on_change();
  };
}

bool NcclBootstrap::MakesId(int ids) const { return place_ < ids; }

void NcclBootstrap::Start(int version, int ids, const std::optional<nccl::UniqueId>& own) {
  REMESH_CHECK(MakesId(ids) == own.has_value());
  state_->ids.resize(ids);
  state_->hellos[own_] = {.version = version, .id = own.value_or(nccl::UniqueId{})};
  own_ == 0 ? StartFirst() : StartOther();
}

void NcclBootstrap::StartFirst() {
  for (size_t i = 1; i < hosts_.size(); ++i) {
    group_->Receive(hosts_[i], kHello, BytesOf(state_->hellos[i]),
                    Then([i, tell = Teller()](const std::shared_ptr<State>& state) {
                      state->present[i] = true;
                      if (--state->absent == 0) tell(state);
                    }));
  }
  for (const int host : hosts_) Watch(host);
  if (state_->absent == 0) Teller()(state_);
}

// The callback runs when the last hello has come: perhaps when the bootstrap is gone, but never
// without `group_`.
NcclBootstrap::Next NcclBootstrap::Teller() const {
  return [group = group_, hosts = hosts_, names = names_](const std::shared_ptr<State>& state) {
    for (size_t i = 1; i < hosts.size() && state->status.ok(); ++i)
      state->status = CheckVersions(names[hosts[0]], state->hellos[0].version, names[hosts[i]],
                                    state->hellos[i].version);
    if (!state->status.ok()) return;
    for (size_t i = 0; i < state->ids.size(); ++i) state->ids[i] = state->hellos[i].id;
    state->complete = true;
    for (size_t i = 1; i < hosts.size(); ++i) {
      group->Send(hosts[i], kIds, std::as_bytes(std::span(state->ids)),
                  [state](absl::Status status) {
                    state->status.Update(std::move(status));
                    state->on_change();
                  });
    }
  };
}

void NcclBootstrap::StartOther() {
  group_->Send(hosts_[0], kHello, std::as_bytes(std::span(&state_->hellos[own_], 1)),
               Then([](const auto&) {}));
  group_->Receive(hosts_[0], kIds, std::as_writable_bytes(std::span(state_->ids)),
                  Then([](const std::shared_ptr<State>& state) { state->complete = true; }));
  Watch(hosts_[0]);
}

void NcclBootstrap::Watch(int peer) {
  if (peer == self_ || !watched_.insert(peer).second) return;
  group_->Receive(peer, kNever, std::span(&state_->never, 1), Then([](const auto&) {}));
}

std::optional<std::vector<nccl::UniqueId>> NcclBootstrap::ids() const {
  if (!state_->complete || !state_->status.ok()) return std::nullopt;
  return state_->ids;
}

absl::Status NcclBootstrap::TimedOut() const {
  std::vector<std::string> absent;
  for (size_t i = 0; i < hosts_.size() && own_ == 0; ++i) {
    if (!state_->present[i]) absent.push_back(names_[hosts_[i]]);
  }
  const std::string list = absl::StrJoin(absent, ", ");
  const std::string cause = own_ != 0 ? absl::StrCat("host ", names_[hosts_[0]],
                                                     ", which knows who is absent, has not "
                                                     "said that all are there")
                                      : absl::StrCat("absent: ", list);
  return MakeError(
      absl::StatusCode::kUnavailable, absl::StrCat("connecting by NCCL took too long; ", cause),
      {"NCCL_TIMEOUT",
       {{"phase", "connect"}, {"cause", cause}, {"absent", own_ == 0 ? list : names_[hosts_[0]]}}});
}

}  // namespace remesh::worker
