// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "planner/canonical/canonical.h"
#include "planner/plan/host_program.h"
#include "remesh/v1/program.pb.h"

namespace remesh {

// A host's program with the names of its arrays and the ids of its devices: what HostProgram
// says. The arrays of the program's classes are arrays[0], arrays[1] ... in turn; its moves name
// devices by their index in `devices`.
struct NamedProgram {
  struct Array {
    std::string name;
    Shape shape;
    int bits_per_element = 8;

    friend bool operator==(const Array&, const Array&) = default;
  };

  std::string fingerprint;  // of the plan
  HostProgram program;
  std::vector<Array> arrays;
  std::vector<int64_t> devices;

  friend bool operator==(const NamedProgram&, const NamedProgram&) = default;
};

// The program of `host` (canonical index) in the caller's names.
NamedProgram ProgramOfHost(const Plan& plan, const CanonicalRequest& request,
                           const Binding& binding, int32_t host);

// The program in chunks of at most about `chunk_bytes`, the first even of an empty program; `visit`
// returns false to stop.
void WriteProgram(const NamedProgram& program,
                  absl::FunctionRef<bool(const v1::HostProgram&)> visit,
                  size_t chunk_bytes = size_t{1} << 20);

// The program whose chunks, merged, are `message`. INVALID_ARGUMENT naming the field
// ("moves.stages[7]") for anything that is no program: what comes back can be expanded, within
// kProgramSlicesMax steps and kProgramCellsPassedMax cells passed, and, box by box, without reading
// beyond anything. Takes memory in proportion to the message and to kProgramNameBytesMax.
absl::StatusOr<NamedProgram> ReadProgram(const v1::HostProgram& message);

inline constexpr int64_t kProgramNameBytesMax = int64_t{64} << 20;
inline constexpr int64_t kProgramSlicesMax = int64_t{1} << 30;  // moves x cycles
// Cells of the tape, summed over the parts of all moves: the ends of a part are looked for among
// them, and a part that rounds to nothing gives no box that a caller could stop at. Less than a
// minute, and 2000 times what any program of the planner's benchmark needs.
inline constexpr int64_t kProgramCellsPassedMax = int64_t{1} << 32;
inline constexpr int64_t kProgramTapeBoxesMax = int64_t{1} << 24;  // cells x arrays of one tape

}  // namespace remesh
