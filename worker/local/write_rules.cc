// SPDX-License-Identifier: Apache-2.0
#include "worker/local/write_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/local/state_errors.h"

namespace remesh::worker {
namespace {

absl::Status WriteDiffers(const Generation& held, const std::string& write,
                          const std::string& what) {
  return StateError(absl::StatusCode::kFailedPrecondition, "WRITE_DIFFERS", held.state(), what,
                    {{"write", write}, {"begun_write", held.write()}});
}

absl::Status AnotherHasBegun(const Generation& held, const std::string& write) {
  return WriteDiffers(
      held, write,
      absl::StrCat("has unsealed shards here of write \"", held.write(), "\", and Seal names \"",
                   write, "\": seal the write that began, or Unseal first for the other"));
}

// Of a Seal that comes late: another write has filled the shards since.
absl::Status WriteReplaced(const Generation& held, const std::string& write) {
  return WriteDiffers(
      held, write,
      absl::StrCat("is of write \"", held.write(), "\" here, which replaced write \"", write,
                   "\": Unseal first to write that again"));
}

bool IsReplaced(const Generation& held, const std::string& write) {
  const auto& replaced = held.manifest.replaced_writes();
  return std::find(replaced.begin(), replaced.end(), write) != replaced.end();
}

}  // namespace

absl::Status WriteIdNeeded(const std::string& state, int32_t hosts) {
  const std::string count = absl::StrCat(hosts);
  return StateError(
      absl::StatusCode::kFailedPrecondition, "WRITE_ID_NEEDED", state,
      absl::StrCat("has shards on ", count,
                   " hosts: pass --write ID, with the same ID to put, unseal and seal on "
                   "every host (write=ID in a Trainer); the training step works as ID, as in "
                   "--write 1200"),
      {{"hosts", count}});
}

absl::StatusOr<std::string> WriteToSeal(const Generation& held, const std::string& name,
                                        absl::FunctionRef<std::string()> moved_by) {
  if (name.empty() || name == held.write()) return held.write();
  if (!held.all_sealed() && !held.write().empty()) return AnotherHasBegun(held, name);
  if (IsReplaced(held, name)) return WriteReplaced(held, name);
  if (const std::string execution = moved_by(); !execution.empty())
    return StateMoving(held.state(), execution);
  return name;
}

absl::StatusOr<std::string> WriteOfCommitted(const Generation& held, const std::string& name) {
  if (name.empty() || name == held.write()) return held.write();
  return WriteDiffers(held, name,
                      absl::StrCat("is written once, and committed as write \"", held.write(),
                                   "\": create another state for write \"", name, "\""));
}

}  // namespace remesh::worker
