// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/saved_epochs.h"

namespace remesh::server::coordination {

std::map<std::string, KnownEpoch> EpochsOf(const SaveWorlds& known) {
  std::map<std::string, KnownEpoch> epochs;
  for (const auto& [scope, world] : known.worlds) {
    epochs[scope] = {.epoch = world->epoch, .size = world->size, .formed = world->formed};
  }
  return epochs;
}

SaveWorlds SaveOf(const std::string& scope, const std::optional<KnownEpoch>& present,
                  int64_t last_epoch) {
  SaveWorlds request{.last_epoch = last_epoch, .worlds = {{scope, std::nullopt}}};
  if (present) {
    request.worlds[scope] =
        SavedWorld{.epoch = present->epoch, .size = present->size, .formed = present->formed};
  }
  return request;
}

SaveWorlds ForgetAll(SaveWorlds& worlds, absl::Time now) {
  worlds.last_epoch = EpochBeyond(worlds.last_epoch, now);
  SaveWorlds request{.last_epoch = worlds.last_epoch};
  for (const auto& [scope, world] : worlds.worlds) request.worlds[scope] = std::nullopt;
  worlds.worlds.clear();
  return request;
}

}  // namespace remesh::server::coordination
