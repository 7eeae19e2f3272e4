// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/attempt_devices.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::worker {

absl::StatusOr<AttemptDevices> AttemptDevices::Make(const v1::Prepare& prepare) {
  if (prepare.self() < 0 || prepare.self() >= prepare.peers_size()) {
    return InvalidField("self", absl::StrCat(prepare.self()),
                        absl::StrCat("must be in [0, ", prepare.peers_size(), ")"));
  }
  AttemptDevices table;
  table.self_ = prepare.self();
  for (int p = 0; p < prepare.peers_size(); ++p) {
    for (int i = 0; i < prepare.peers(p).device_ids_size(); ++i) {
      const int64_t id = prepare.peers(p).device_ids(i);
      if (!table.ordinal_of_.try_emplace(id, table.devices_.size()).second) {
        return InvalidField(absl::StrCat("peers[", p, "].device_ids[", i, "]"), absl::StrCat(id),
                            "must be unique");
      }
      table.devices_.push_back({p, i});
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
