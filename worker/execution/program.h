// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/plan/host_program.h"
#include "proto/convert/program_proto.h"
#include "remesh/v1/plan.pb.h"
#include "worker/execution/attempt_devices.h"

namespace remesh::worker {

// One host's part of a plan, checked and expanded: what moves between which devices, by ordinal, in
// which window.
struct Program {
  std::vector<proto::NamedProgram::Array> arrays;
  planner::HostProgram tapes;               // with their atoms; its segments and moves are spent
  std::vector<planner::Stretch> stretches;  // rising windows; the same relative order on every host

  int32_t windows() const { return tapes.windows; }
  // The first array and box that [lo, hi) of a tape runs through.
  struct Place {
    std::string array;
    planner::Box box;
  };
  Place PlaceOn(int32_t tape, int64_t lo, int64_t hi) const;
};

// Most that a program may take on the wire and, expanded, in memory: far beyond any real one.
inline constexpr int64_t kProgramBytesMax = int64_t{32} << 20;
inline constexpr size_t kProgramStretchesMax = size_t{1} << 24;
// Most that a host may move by one program, in slices of kSliceBytesMax: 16 TiB. What is kept of each
// slice and chunk grows with it, not with the program's size.
inline constexpr int64_t kProgramSlicesMax = int64_t{1} << 22;

// Puts a program together from its chunks.
class ProgramReader {
 public:
  // `devices` must outlive the reader.
  ProgramReader(const AttemptDevices* devices, std::string fingerprint, int32_t windows,
                size_t stretches_max = kProgramStretchesMax,
                int64_t slices_max = kProgramSlicesMax);

  // FAILED_PRECONDITION (FINGERPRINT_MISMATCH) for another plan's program, INVALID_ARGUMENT for
  // other windows, RESOURCE_EXHAUSTED (PROGRAM_TOO_LARGE) above kProgramBytesMax.
  absl::Status Add(const v1::HostProgram& chunk);

  // The program, expanded. INVALID_ARGUMENT naming the field ("moves.stages[7]") when the chunks
  // are not a program of this attempt and host, or none; RESOURCE_EXHAUSTED (PROGRAM_TOO_LARGE)
  // above stretches_max or slices_max.
  absl::StatusOr<Program> Finish() &&;

 private:
  const AttemptDevices* const devices_;
  const std::string fingerprint_;
  const int32_t windows_;
  const size_t stretches_max_;
  const int64_t slices_max_;
  bool begun_ = false;
  size_t bytes_ = 0;
  v1::HostProgram message_;  // all chunks so far
};

}  // namespace remesh::worker
