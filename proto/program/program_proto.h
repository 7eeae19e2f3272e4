// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "planner/canonical/canonical.h"
#include "planner/codec/program_check.h"
#include "planner/plan/host_program.h"
#include "remesh/v1/program.pb.h"

namespace remesh::proto {

// A HostProgram with the names of its arrays and the ids of its devices. The arrays of the
// program's classes are arrays[0], arrays[1] ... in turn; its moves refer to devices by their index
// in `devices`.
struct NamedProgram {
  struct Array {
    std::string name;
    planner::Shape shape;
    int bits_per_element = 8;

    friend bool operator==(const Array&, const Array&) = default;
  };

  std::string fingerprint;  // of the plan
  planner::HostProgram program;
  std::vector<Array> arrays;
  std::vector<int64_t> devices;

  friend bool operator==(const NamedProgram&, const NamedProgram&) = default;
};

// The program in the caller's names.
NamedProgram InCallersNames(planner::HostProgram program, const planner::CanonicalRequest& request,
                            const planner::Binding& binding);
// The same for the program of `host` (canonical index).
NamedProgram ProgramOfHost(const planner::Plan& plan, const planner::CanonicalRequest& request,
                           const planner::Binding& binding, int32_t host);

// Calls `visit` with the program in chunks of about `chunk_bytes` at most, until it returns false.
// Even an empty program has one chunk.
void WriteProgram(const NamedProgram& program,
                  absl::FunctionRef<bool(const v1::HostProgram&)> visit,
                  size_t chunk_bytes = size_t{1} << 20);

// The program whose chunks, merged, are `message`. INVALID_ARGUMENT naming the field
// ("moves.hops[7]") for an invalid program. The returned program can be expanded, box by box,
// without reading out of bounds, within kProgramPartsMax steps and kProgramAtomsPassedMax atoms
// passed. Takes memory in proportion to the message and to kProgramNameBytesMax.
absl::StatusOr<NamedProgram> ReadProgram(const v1::HostProgram& message);

inline constexpr int64_t kProgramNameBytesMax = int64_t{64} << 20;

}  // namespace remesh::proto
