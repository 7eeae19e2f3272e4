// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "planner/values/box.h"
#include "planner/values/element_type.h"

namespace remesh::client {

// The header of a .npy file. Format: numpy.lib.format, versions 1.0 to 3.0.
struct NpyHeader {
  planner::ElementType type = planner::ElementType::kU8;
  std::string
      raw;  // the descr of raw bytes, such as "|V2", whose type the file does not tell; or ""
  planner::Shape shape;
  size_t bytes = 0;  // length of the header, after which the data starts
};

// NumPy's spelling of a type ("<f4"), or nullopt for types that NumPy lacks: bf16, fp8, int4 ...
std::optional<std::string_view> NpyDescr(planner::ElementType type);

// Whether NumPy writes elements of `type`, for which it has no name, under `descr`: as raw bytes
// ("|V2" for bf16, "|V1" for fp8), as ml_dtypes makes them. False for types below a byte, which
// NumPy does not pack.
bool IsRawDescr(planner::ElementType type, std::string_view descr);

// Parses `start`, the beginning of the file, which must have the whole header. INVALID_ARGUMENT
// (fields "magic", "descr", "fortran_order", "shape") unless it is a little-endian C-order array of
// a known type.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view start);

// The header of version 1.0, padded so that the data starts at a multiple of 64.
// REQUIRES: NpyDescr(type).has_value().
std::string FormatNpyHeader(planner::ElementType type, const planner::Shape& shape);

}  // namespace remesh::client
