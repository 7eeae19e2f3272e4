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

// A host's program with the names of its arrays and the ids of its devices: what HostProgram
// says. The arrays of the program's classes are arrays[0], arrays[1] ... in turn; its moves name
// devices by their index in `devices`.
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

// The program of `host` (canonical index) in the caller's names.
NamedProgram ProgramOfHost(const planner::Plan& plan, const planner::CanonicalRequest& request,
                           const planner::Binding& binding, int32_t host);

// The program in chunks of at most about `chunk_bytes`, the first even of an empty program; `visit`
// returns false to stop.
void WriteProgram(const NamedProgram& program,
                  absl::FunctionRef<bool(const v1::HostProgram&)> visit,
                  size_t chunk_bytes = size_t{1} << 20);

// The program whose chunks, merged, are `message`. INVALID_ARGUMENT naming the field
// ("moves.stages[7]") for anything that is no program: what comes back can be expanded, within
// kProgramPartsMax steps and kProgramAtomsPassedMax atoms passed, and, box by box, without reading
// beyond anything. Takes memory in proportion to the message and to kProgramNameBytesMax.
absl::StatusOr<NamedProgram> ReadProgram(const v1::HostProgram& message);

inline constexpr int64_t kProgramNameBytesMax = int64_t{64} << 20;

}  // namespace remesh::proto
