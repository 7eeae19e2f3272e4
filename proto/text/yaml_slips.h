// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"

namespace remesh::proto {

// Where yaml-cpp stopped; both count from 0.
struct YamlMark {
  size_t line = 0;
  size_t column = 0;
};

// The error of a text that yaml-cpp refuses at `mark` with `message`, one of YAML::ErrorMsg: in
// words of who writes YAML, for the slips that are made most.
absl::Status ExplainYamlSlip(std::string_view yaml, YamlMark mark, std::string_view message);

}  // namespace remesh::proto
