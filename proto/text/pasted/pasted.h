// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace remesh::proto {

// What people paste into a spec where a message is expected: the text that a framework prints, or
// the name of an entry. Read into protobuf's JSON of that message.
//
// INVALID_ARGUMENT (field "") says what a text is that lacks something, or cannot be read, and what
// to write instead.
using PastedJson = nlohmann::ordered_json;

struct PastedSharding {
  PastedJson members;            // of a Sharding: its form, and memory_kind if it has one
  PastedJson devices = nullptr;  // the DeviceList that the text implies; null: none
};

// A Sharding:
//   rows                                          the key of another sharding
//   {devices=[4,1]<=[4]}, #sdy.sharding<...>      text of HLO or of Shardy
//   NamedSharding(mesh=Mesh('x': 4), spec=PartitionSpec('x', None)), SingleDeviceSharding(...),
//   GSPMDSharding({...})                          as JAX prints them
//   (Shard(dim=0), Replicate()), DTensorSpec(...) as PyTorch prints them
// A mesh that is printed without its devices implies the devices 0, 1, 2 ...
absl::StatusOr<PastedSharding> ReadPastedSharding(std::string_view text);

// A list of Placements, or one: [Shard(0), Replicate()], S(0), Partial(sum).
absl::StatusOr<PastedJson> ReadPastedPlacements(std::string_view text);
absl::StatusOr<PastedJson> ReadPastedPlacement(std::string_view text);

// A DeviceList: the key of another list, or ids as in 0-7, 0..7 or 3,1,0.
absl::StatusOr<PastedJson> ReadPastedDevices(std::string_view text);

// The form that a text of a sharding is certainly in: hlo_text, sdy_text, or "printed" by a
// framework; "" when unknown.
std::string FormOfText(const std::string& text);

}  // namespace remesh::proto
