// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/fences.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server::coordination {
namespace {

std::string Why(const std::string& scope, int64_t epoch, int64_t present) {
  if (present == 0) return absl::StrCat("epoch ", epoch, " of ", scope, " is not known");
  return absl::StrCat("epoch ", epoch, " of ", scope, " is over: the present one is ", present);
}

}  // namespace

absl::Status StaleEpoch(std::string_view scope, int64_t epoch, int64_t present) {
  const std::string name(scope);
  return MakeError(absl::StatusCode::kFailedPrecondition, Why(name, epoch, present),
                   {.reason = "STALE_EPOCH",
                    .metadata = {{"scope", name},
                                 {"epoch", absl::StrCat(present)},
                                 {"stale_epoch", absl::StrCat(epoch)}}});
}

void Fences::Set(std::string_view scope, int64_t epoch) {
  absl::MutexLock lock(&mutex_);
  present_.insert_or_assign(std::string(scope), epoch);
}

void Fences::Forget(std::string_view scope) {
  absl::MutexLock lock(&mutex_);
  const auto at = present_.find(scope);
  if (at != present_.end()) present_.erase(at);
}

absl::Status Fences::CheckFence(std::string_view scope, int64_t epoch) const {
  absl::MutexLock lock(&mutex_);
  const auto at = present_.find(scope);
  const int64_t present = at == present_.end() ? 0 : at->second;
  if (epoch > 0 && epoch == present) return absl::OkStatus();
  return StaleEpoch(scope, epoch, present);
}

}  // namespace remesh::server::coordination
