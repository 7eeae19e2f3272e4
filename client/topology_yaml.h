// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "remesh/v1/topology.pb.h"

namespace remesh::client {

// A topology as people write it: a line for each host and domain, capacities as 5e+10.
std::string TopologyYaml(const v1::Topology& topology);

}  // namespace remesh::client
