// SPDX-License-Identifier: Apache-2.0
#include "server/planning/kept_bytes.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server {
namespace {

constexpr size_t kPartsOfBytes = 4;  // a caller may have one of them
// A stream whose reader reads nothing ends after about a minute; most readers are faster.
constexpr const char* kRetryAfterSeconds = "5";

absl::Status NoRoom(const std::string& caller, size_t bytes, const ByteShares::Limits& limits) {
  const std::string more = absl::StrCat(bytes), share = absl::StrCat(limits.of_caller),
                    most = absl::StrCat(limits.all);
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
    : shares_({.all = max_bytes, .of_caller = max_bytes / kPartsOfBytes}) {}

absl::StatusOr<KeptBytes::Place> KeptBytes::Keep(const std::string& caller, size_t bytes) {
  if (bytes == 0) return Place();
  if (!shares_.Take(caller, bytes)) return NoRoom(caller, bytes, shares_.limits());
  return Place(*this, caller, bytes);
}

}  // namespace remesh::server
