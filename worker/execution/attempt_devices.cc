// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/attempt_devices.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

constexpr int64_t kNumbersMax = int64_t{1} << 31;

// The number of the first device of a host. An older server names all hosts, so that the numbers
// are the ordinals.
absl::StatusOr<int64_t> FirstNumberOf(const v1::Prepare& prepare, int peer, int64_t least) {
  if (prepare.hosts() == 0) return least;
  const v1::PeerEntry& entry = prepare.peers(peer);
  const int64_t first = entry.first_device();
  if (first >= least && first + entry.device_ids_size() <= kNumbersMax) return first;
  return InvalidField(absl::StrCat("peers[", peer, "].first_device"), absl::StrCat(first),
                      absl::StrCat("must be at least ", least, ", beyond the previous devices"));
}

}  // namespace

absl::StatusOr<AttemptDevices> AttemptDevices::Make(const v1::Prepare& prepare) {
  if (prepare.self() < 0 || prepare.self() >= prepare.peers_size()) {
    return InvalidField("self", absl::StrCat(prepare.self()),
                        absl::StrCat("must be in [0, ", prepare.peers_size(), ")"));
  }
  AttemptDevices table;
  table.self_ = prepare.self();
  int64_t number = 0;
  for (int p = 0; p < prepare.peers_size(); ++p) {
    ASSIGN_OR_RETURN(number, FirstNumberOf(prepare, p, number));
    for (int i = 0; i < prepare.peers(p).device_ids_size(); ++i) {
      const int64_t id = prepare.peers(p).device_ids(i);
      if (!table.ordinal_of_.try_emplace(id, table.devices_.size()).second) {
        return InvalidField(absl::StrCat("peers[", p, "].device_ids[", i, "]"), absl::StrCat(id),
                            "must be unique");
      }
      table.devices_.push_back({p, i});
      table.numbers_.push_back(static_cast<uint32_t>(number++));
    }
  }
  return table;
}

int AttemptDevices::CountOf(int peer) const {
  return static_cast<int>(std::count_if(devices_.begin(), devices_.end(),
                                        [&](const Device& device) { return device.peer == peer; }));
}

int AttemptDevices::OrdinalOf(int64_t device_id) const {
  const auto it = ordinal_of_.find(device_id);
  return it == ordinal_of_.end() ? -1 : it->second;
}

}  // namespace remesh::worker
