// SPDX-License-Identifier: Apache-2.0
#include "server/controller/data_addresses.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/data_encryption.h"
#include "base/error.h"

namespace remesh::server {

DataAddresses AddressesOf(const DataAddresses& all, bool encrypted) {
  DataAddresses chosen;
  for (const v1::DataAddress& address : all) {
    if (absl::EndsWith(address.transport(), kEncryptedTransport) == encrypted)
      *chosen.Add() = address;
  }
  return chosen;
}

absl::Status CheckEncrypts(bool encrypted, const std::set<std::string>& hosts,
                           const WorkerRegistry& workers) {
  if (!encrypted || hosts.size() < 2) return absl::OkStatus();
  for (const std::string& host : hosts) {
    const DataAddresses& all = workers.Find(host)->registration.data_addresses();
    if (!AddressesOf(all, true).empty()) continue;
    const std::string transports = absl::StrJoin(
        all, ", ", [](std::string* out, const auto& address) { *out += address.transport(); });
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("data_encryption is on, and host ", host,
                     " cannot encrypt what it sends: its transport is ", transports),
        {.reason = "DATA_NOT_ENCRYPTED", .metadata = {{"host", host}, {"transport", transports}}});
  }
  return absl::OkStatus();
}

}  // namespace remesh::server
