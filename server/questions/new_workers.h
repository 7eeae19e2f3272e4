// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planner/values/topology.h"
#include "remesh/v1/state.pb.h"
#include "remesh/v1/topology.pb.h"

namespace remesh::server {

// Workers that came after a state was created, or that its topology does not name, may take part in
// its next move if the state uses the workers' own device numbering. Both functions add such hosts,
// with racks that the topology does not know. They add none if a host of the topology is registered
// with other devices. `workers`: null, or hosts by name.

// Adds those whose devices the spec's device lists and shardings name beyond its topology. Costs the
// same among any number of workers if it names none.
void AddNamedWorkers(v1::StateSpec& spec, const planner::Topology* workers);

// Adds all.
void AddAllWorkers(v1::Topology& topology, const planner::Topology* workers);

}  // namespace remesh::server
