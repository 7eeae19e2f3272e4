// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/membership/worker_registry.h"

namespace remesh::server {

using DataAddresses = google::protobuf::RepeatedPtrField<v1::DataAddress>;

// The addresses among `all` at which traffic is encrypted, or those at which it is not.
DataAddresses AddressesOf(const DataAddresses& all, bool encrypted);

// Checks that the hosts of an attempt that is to be `encrypted` can encrypt; a single host sends
// nothing. FAILED_PRECONDITION (DATA_NOT_ENCRYPTED) names the first host without an address for it.
absl::Status CheckEncrypts(bool encrypted, const std::set<std::string>& hosts,
                           const WorkerRegistry& workers);

// Checks that every two hosts of an attempt can reach each other. FAILED_PRECONDITION
// (NO_COMMON_TRANSPORT) names two without a transport in common. A host that reports no transport
// is left to its peers to judge.
absl::Status CheckCommonTransport(const std::set<std::string>& hosts,
                                  const WorkerRegistry& workers);

}  // namespace remesh::server
