// SPDX-License-Identifier: Apache-2.0
#include "server/callers/open_watches.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server {

absl::StatusOr<OpenWatches::Place> OpenWatches::Begin(const std::string& caller) {
  absl::MutexLock lock(&mutex_);
  int& count = counts_[caller];
  if (count < kOfCallerMax) {
    ++count;
    return Place(*this, caller);
  }
  const std::string most = absl::StrCat(kOfCallerMax);
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat(caller, " has ", most, " watches open already"),
      {.reason = "TOO_MANY_WATCHES", .metadata = {{"caller", caller}, {"watches_max", most}}});
}

void OpenWatches::End(const std::string& caller) {
  absl::MutexLock lock(&mutex_);
  const auto found = counts_.find(caller);
  if (--found->second == 0) counts_.erase(found);
}

}  // namespace remesh::server
