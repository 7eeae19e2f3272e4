// SPDX-License-Identifier: Apache-2.0
#include "server/controller/membership/data_addresses.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/text/transport_names.h"

namespace remesh::server {
namespace {

std::string NamesOf(const DataAddresses& addresses) {
  return absl::StrJoin(addresses, ", ",
                       [](std::string* out, const auto& address) { *out += address.transport(); });
}

bool HaveCommon(const DataAddresses& some, const DataAddresses& others) {
  return std::any_of(some.begin(), some.end(), [&](const v1::DataAddress& one) {
    return std::any_of(others.begin(), others.end(), [&](const v1::DataAddress& other) {
      return one.transport() == other.transport();
    });
  });
}

}  // namespace

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
    const std::string transports = NamesOf(all);
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("data_encryption is on, and host ", host,
                     " cannot encrypt what it sends: its transport is ", transports),
        {.reason = "DATA_NOT_ENCRYPTED", .metadata = {{"host", host}, {"transport", transports}}});
  }
  return absl::OkStatus();
}

absl::Status CheckCommonTransport(const std::set<std::string>& hosts,
                                  const WorkerRegistry& workers) {
  std::map<std::string, std::pair<std::string, DataAddresses>> first_of;  // host, by transports
  for (const std::string& host : hosts) {
    const DataAddresses own = AddressesOf(workers.Find(host)->registration.data_addresses(), false);
    const std::string transports = NamesOf(own);
    if (own.empty() || first_of.contains(transports)) continue;
    for (const auto& [others, first] : first_of) {
      if (HaveCommon(first.second, own)) continue;
      return MakeError(absl::StatusCode::kFailedPrecondition,
                       absl::StrCat("hosts ", first.first, " and ", host,
                                    " have no transport in common: ", others, " and ", transports),
                       {.reason = "NO_COMMON_TRANSPORT",
                        .metadata = {{"host", host},
                                     {"transport", transports},
                                     {"other_host", first.first},
                                     {"other_transport", others}}});
    }
    first_of.try_emplace(transports, host, own);
  }
  return absl::OkStatus();
}

}  // namespace remesh::server
