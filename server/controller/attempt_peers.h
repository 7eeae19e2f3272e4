// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "remesh/v1/worker.pb.h"
#include "server/controller/controller_options.h"
#include "server/controller/device_ledger.h"
#include "server/controller/execution_spec.h"
#include "server/controller/worker_registry.h"

namespace remesh::server {

// What the hosts of an attempt are told of each other, each with a token of this attempt. REQUIRES: all
// are in `workers`.
std::vector<v1::PeerEntry> MakePeers(const ExecutionSpec& spec, const WorkerRegistry& workers,
                                     const RandomBits& random, bool encrypts_data);

std::set<std::string> HostsOf(const ExecutionSpec& spec);

// What an execution must have for itself. NCCL's groups wait for each other on the GPUs: two executions
// on other devices of the same hosts, begun in another order on each, would wait for ever.
std::set<DeviceKey> ClaimOf(const std::set<DeviceKey>& devices, const WorkerRegistry& workers);

}  // namespace remesh::server
