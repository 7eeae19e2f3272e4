// SPDX-License-Identifier: Apache-2.0
#include "client/absent_state.h"

#include <algorithm>
#include <iostream>
#include <set>

#include "base/error.h"
#include "base/status_macros.h"
#include "planner/values/layout.h"
#include "proto/convert/plan_spec.h"
#include "remesh/v1/state.grpc.pb.h"
#include "remesh/v1/worker.grpc.pb.h"

namespace remesh::client {
namespace {

absl::StatusOr<v1::State> GetState(const Endpoint& server, const std::string& name) {
  const auto stub = v1::StateService::NewStub(ConnectServer(server));
  v1::GetStateRequest request;
  request.set_name(name);
  return Call(server, *stub, &v1::StateService::Stub::GetState, request);
}

// The state's layout; one without a topology is in the workers' own numbering.
absl::StatusOr<proto::StateLayout> LayoutOf(const Endpoint& server, v1::StateSpec spec) {
  if (spec.topology().hosts().empty()) {
    const auto stub = v1::WorkerService::NewStub(ConnectServer(server));
    ASSIGN_OR_RETURN(
        *spec.mutable_topology(),
        Call(server, *stub, &v1::WorkerService::Stub::GetTopology, v1::GetTopologyRequest()));
  }
  return proto::ToStateLayout(spec, nullptr);
}

std::set<int64_t> DevicesOf(const planner::Topology& topology, const std::string& host) {
  for (const planner::Host& other : topology.hosts) {
    if (other.name == host) return {other.device_ids.begin(), other.device_ids.end()};
  }
  return {};
}

bool Holds(const planner::Placement& placement, const std::set<int64_t>& devices) {
  for (int32_t i = 0; i < placement.layout->device_count; ++i) {
    if (devices.contains((*placement.devices)[i]) &&
        !planner::BoxesOf(*placement.layout, i).empty())
      return true;
  }
  return false;
}

}  // namespace

absl::Status CheckNothingHere(const absl::Status& refusal, const Endpoint& worker,
                              v1::LocalService::Stub& local, const Endpoint& server,
                              const std::string& name, const std::vector<std::string>& arrays) {
  const std::string reason = GetErrorInfo(refusal).reason;
  if (reason != "STATE_NOT_FOUND" && reason != "GENERATION_NOT_FOUND") return refusal;
  const absl::StatusOr<v1::State> state = GetState(server, name);
  // A server that cannot be asked, or does not know the state either, confirms nothing.
  if (!state.ok()) return refusal;
  ASSIGN_OR_RETURN(const v1::GetHostResponse host,
                   Call(worker, local, &v1::LocalService::Stub::GetHost, v1::GetHostRequest()));
  ASSIGN_OR_RETURN(const proto::StateLayout layout, LayoutOf(server, state->spec()));
  const std::set<int64_t> devices = DevicesOf(layout.topology, host.host());
  for (const proto::PlacedArray& array : layout.arrays) {
    const bool named =
        arrays.empty() || std::find(arrays.begin(), arrays.end(), array.name) != arrays.end();
    if (named && Holds(array.placement, devices)) return refusal;
  }
  return absl::OkStatus();
}

void PrintNothingHere(OutputFormat format, const google::protobuf::Message& empty,
                      const std::string& state) {
  if (IsTable(format)) {
    std::cout << "nothing of " << state << " is on this host\n";
  } else {
    Print(format, empty, [] { return Table({}); });
  }
}

}  // namespace remesh::client
