// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>

#include "planner/values/topology.h"
#include "remesh/v1/state.pb.h"

namespace remesh::server {

// Workers that came after a state was created, or that its topology does not name, may take part in
// its next move if the state uses the workers' own device numbering. Both functions add such hosts,
// with racks that the topology does not know. They add none if a worker lacks a device that the
// state is on, or has devices of the topology in another order: then the numbers are the state's
// own. They skip a worker with a device id of another host of the topology. If the topology is
// from_workers, they first remove the hosts that are no longer workers with these devices and that
// the state is not on. `workers`: null, or hosts in order of their names.

// Adds those whose devices the shardings of the spec's arrays name beyond its topology, or on a
// host that is to leave. Adds and removes none, and costs little more among many workers than among
// few, if the spec names no such device. `source`: where the state is now, except for the devices
// that are lost.
void AddNamedWorkers(v1::StateSpec& spec, const v1::StateSpec& source,
                     const std::set<int64_t>& lost, const planner::Topology* workers);

// Adds all to where a state is now.
void AddAllWorkers(v1::StateSpec& spec, const planner::Topology* workers);

// Whether a topology with which a state moves on by a plan's name is still the workers': the
// source's is, and each host is in that or is a worker, with the same devices.
bool IsFromWorkers(const v1::Topology& topology, const v1::Topology& source,
                   const planner::Topology* workers);

}  // namespace remesh::server
