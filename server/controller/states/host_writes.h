// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "remesh/v1/state.pb.h"

namespace remesh::server {

// The write that filled the shards of a state on each host, by host; see UnsealRequest.write. Empty
// for a host that names none.
using HostWrites = std::map<std::string, std::string>;

// Whether all hosts name the same write, or none.
bool Agree(const HostWrites& writes);

// At most 16 hosts, sorted; as many different writes among them as there are.
std::vector<v1::HostWrite> SomeOf(const HostWrites& writes);

// For people, as in "write 7 on host-0, 6 on host-1"; "" if there are no hosts.
std::string Describe(const HostWrites& writes);

}  // namespace remesh::server
