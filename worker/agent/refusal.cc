// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/refusal.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::worker {
namespace {

constexpr std::chrono::minutes kPause(1);

}  // namespace

std::optional<Refusal> RefusalOf(const absl::Status& status, const std::string& host) {
  const std::string reason = GetErrorInfo(status).reason;
  if (reason == "SUPERSEDED")
    return Refusal{true, absl::StrCat("another process is host ", host,
                                      " now: give one of them "
                                      "another host and buffer_directory")};
  if (reason == "OTHER_CLUSTER")
    return Refusal{
        false,
        "set server_address to the planner that this host belongs to; or, if its journal "
        "is lost, start the server with that cluster_uid; or, if nothing needs what this "
        "host holds any more, empty buffer_directory"};
  if (reason == "JOIN_TOKEN")
    return Refusal{false, "set join_token_file to a file with one of the planner's join tokens"};
  if (reason == "HOST_SECRET")
    return Refusal{false,
                   absl::StrCat("if no other machine has this name: remeshctl workers reset ", host,
                                "; or set join_token_file")};
  if (reason == "DEVICES_CHANGED")
    return Refusal{false,
                   "set device_ids and devices as before; or move or delete what it holds first"};
  if (reason == "NO_ROLE" || reason == "ROLE_DENIED")
    return Refusal{false,
                   absl::StrCat("set tls_certificate_file to a certificate whose SPIFFE id is "
                                "spiffe://DOMAIN/worker/",
                                host, ", with the planner's tls_trust_domain")};
  return std::nullopt;
}

bool RefusalNotes::IsDue(const absl::Status& refusal, Timestamp now) {
  if (refusal == last_ && now - noted_ < kPause) return false;
  last_ = refusal;
  noted_ = now;
  return true;
}

}  // namespace remesh::worker
