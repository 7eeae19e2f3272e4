// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "remesh/v1/worker.pb.h"
#include "server/controller/executions/execution_spec.h"
#include "server/controller/membership/worker_registry.h"
#include "server/controller/values/controller_options.h"
#include "server/controller/values/device_ledger.h"

namespace remesh::server {

// The entries by which the hosts of an attempt know each other, each with a token of this attempt.
// REQUIRES: all hosts are in `workers`.
std::vector<v1::PeerEntry> MakePeers(const ExecutionSpec& spec, const WorkerRegistry& workers,
                                     const RandomBits& random, bool encrypts_data);

// By host, in the same order: whether its worker knows Prepare.hosts.
std::vector<bool> TakeShortPrepare(const ExecutionSpec& spec, const WorkerRegistry& workers);

std::set<std::string> HostsOf(const ExecutionSpec& spec);
// By host, in the same order as MakePeers(): whether it has a part of the target.
std::vector<bool> ReceiversOf(const ExecutionSpec& spec);

// The devices that an execution must have to itself. NCCL groups wait for each other on the GPUs,
// so two executions on different devices of the same hosts would wait forever if each host began
// them in a different order.
DeviceSet ClaimOf(const DeviceSet& devices, const WorkerRegistry& workers);

}  // namespace remesh::server
