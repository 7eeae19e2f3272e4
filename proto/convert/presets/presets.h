// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "remesh/v1/topology.pb.h"

namespace remesh::proto {

// Presets for common machines: the YAML files of this folder, which are built into every program.

// All presets, by name.
const v1::TopologyPresets& Presets();

// The preset called `name`. INVALID_ARGUMENT, naming `field`, with all names in the message.
absl::StatusOr<const v1::TopologyPreset*> FindPreset(const std::string& name,
                                                     std::string_view field = "preset");

// Sets the fields of `host` that are 0 to the values of its preset. A host without preset stays as
// it is. Fields: "preset".
absl::Status FillFromPreset(v1::Host& host);

// A cluster of equal machines.
struct Cluster {
  std::string preset;
  int64_t hosts = 1;
  std::string host_prefix = "host-";  // hosts are host-0, host-1 ...
  int64_t first_device = 0;           // devices are numbered host by host from here on
  int64_t racks = 0;            // hosts (or the preset's groups) are dealt into so many; 0: none
  double oversubscription = 1;  // capacity below a rack's uplink over that of the uplink
};

// The cluster's topology, with all capacities written out, and domains for the preset's groups and
// for racks ("rack-0" ...). INVALID_ARGUMENT: "preset"; "hosts": not 1 to 65536; "first_device":
// below 0; "racks": below 0 or more than there are hosts or groups; "oversubscription": not finite
// and > 0.
absl::StatusOr<v1::Topology> MakeTopology(const Cluster& cluster);

// The texts of the files. Defined in presets_data.cc, which CMake makes.
absl::Span<const char* const> PresetTexts();

}  // namespace remesh::proto
