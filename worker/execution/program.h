// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/plan/plan.h"
#include "planner/values/box.h"
#include "remesh/v1/plan.pb.h"
#include "worker/execution/attempt_devices.h"

namespace remesh {

// One host's part of a plan, checked: what its messages say, with devices by ordinal.
struct Program {
  struct Array {
    std::string name;
    Shape shape;
    int bits_per_element = 8;
  };
  struct Operation {
    int32_t window = 0;
    int32_t array = 0;
    Box box;  // not empty
    int from = 0;
    int to = 0;
    Space from_space = Space::kSource;
    Space to_space = Space::kTarget;
    int32_t staging_key = 0;  // boxes staged by another key lie apart
  };

  int32_t windows = 0;
  std::vector<Array> arrays;
  std::vector<Operation> operations;  // rising windows; the same relative order on every host
};

// Most that a program may take on the wire and, expanded, in memory: far beyond any real one.
inline constexpr int64_t kProgramBytesMax = int64_t{32} << 20;
inline constexpr size_t kProgramOperationsMax = size_t{1} << 24;

// Puts a program together from its chunks.
class ProgramReader {
 public:
  // `devices` must outlive the reader.
  ProgramReader(const AttemptDevices* devices, std::string fingerprint, int32_t windows,
                size_t operations_max = kProgramOperationsMax);

  // FAILED_PRECONDITION (FINGERPRINT_MISMATCH) for another plan's program, INVALID_ARGUMENT for
  // other windows, RESOURCE_EXHAUSTED (PROGRAM_TOO_LARGE) above kProgramBytesMax.
  absl::Status Add(const v1::HostProgram& chunk);

  // The program, expanded. INVALID_ARGUMENT naming the field ("moves.stages[7]") when the chunks
  // are not a program of this attempt and host, or none; RESOURCE_EXHAUSTED (PROGRAM_TOO_LARGE)
  // above operations_max.
  absl::StatusOr<Program> Finish() &&;

 private:
  const AttemptDevices* const devices_;
  const std::string fingerprint_;
  const int32_t windows_;
  const size_t operations_max_;
  bool begun_ = false;
  size_t bytes_ = 0;
  v1::HostProgram message_;  // all chunks so far
};

}  // namespace remesh
