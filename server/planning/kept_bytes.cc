// SPDX-License-Identifier: Apache-2.0
#include "server/planning/kept_bytes.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server {
namespace {

constexpr size_t kPartsOfBytes = 4;  // a caller may have one of them
// A stream whose reader reads nothing ends after about a minute; most readers are faster.
constexpr const char* kRetryAfterSeconds = "5";

absl::Status NoRoom(const std::string& caller, size_t bytes, size_t max_of_caller,
                    size_t max_bytes) {
  const std::string more = absl::StrCat(bytes), share = absl::StrCat(max_of_caller),
                    most = absl::StrCat(max_bytes);
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("there is no room for an answer of ", more, " bytes: answers that wait for ",
                   caller, " to read them may have ", share, " bytes, those of all callers ", most,
                   "; read them and repeat the call after ", kRetryAfterSeconds, " s"),
      {.reason = "UNREAD_ANSWERS",
       .metadata = {{"caller", caller},
                    {"bytes", more},
                    {"caller_max_bytes", share},
                    {"max_bytes", most},
                    {"retry_after_seconds", kRetryAfterSeconds}}});
}

}  // namespace

KeptBytes::KeptBytes(size_t max_bytes)
    : max_bytes_(max_bytes), max_of_caller_(max_bytes / kPartsOfBytes) {}

absl::StatusOr<KeptBytes::Place> KeptBytes::Keep(const std::string& caller, size_t bytes) {
  if (bytes == 0) return Place();
  absl::MutexLock lock(&mutex_);
  const auto found = of_callers_.find(caller);
  const size_t of_caller = found == of_callers_.end() ? 0 : found->second;
  if (bytes > max_of_caller_ - of_caller || bytes > max_bytes_ - bytes_) {
    return NoRoom(caller, bytes, max_of_caller_, max_bytes_);
  }
  bytes_ += bytes;
  of_callers_[caller] = of_caller + bytes;
  return Place(*this, caller, bytes);
}

void KeptBytes::Drop(const std::string& caller, size_t bytes) {
  absl::MutexLock lock(&mutex_);
  bytes_ -= bytes;
  const auto found = of_callers_.find(caller);
  found->second -= bytes;
  if (found->second == 0) of_callers_.erase(found);
}

}  // namespace remesh::server
