// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/worker_registry.h"

namespace remesh::server {

using DataAddresses = google::protobuf::RepeatedPtrField<v1::DataAddress>;

// Those of `all` at which what is sent is encrypted, or those at which it is not.
DataAddresses AddressesOf(const DataAddresses& all, bool encrypted);

// Whether the hosts of an attempt, if it is to be `encrypted`, can do so; one alone sends nothing.
// FAILED_PRECONDITION (DATA_NOT_ENCRYPTED), naming the first host that has no address for it.
absl::Status CheckEncrypts(bool encrypted, const std::set<std::string>& hosts,
                           const WorkerRegistry& workers);

// Whether the hosts of an attempt can reach each other. FAILED_PRECONDITION (NO_COMMON_TRANSPORT), naming
// the first two of which each has another transport; of a host that tells none its peers judge.
absl::Status CheckCommonTransport(const std::set<std::string>& hosts,
                                  const WorkerRegistry& workers);

}  // namespace remesh::server
