// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/connection.h"

namespace remesh::client {

// A file of a debug bundle.
struct DebugPart {
  std::string name;
  absl::StatusOr<std::string> content;
  std::string note = "";  // what is missing from it
};

// Collects what the server tells the caller about itself and about what it manages, in parts of at
// most 16 MiB each. A part that cannot be fetched has an error. UNREACHABLE ends the collection: no
// part can be fetched.
absl::StatusOr<std::vector<DebugPart>> CollectDebugParts(const Endpoint& server);

}  // namespace remesh::client
