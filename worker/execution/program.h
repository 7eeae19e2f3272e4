// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/plan/host_program.h"
#include "proto/program/program_proto.h"
#include "remesh/v1/plan.pb.h"
#include "worker/execution/attempt_devices.h"

namespace remesh::worker {

// One host's part of a plan, checked and expanded: which stretches move between which devices, by
// ordinal, in which window.
struct Program {
  std::vector<proto::NamedProgram::Array> arrays;
  bool plan_compared = false;               // by digest with the plan that the attempt must execute
  planner::HostProgram tapes;               // with atoms; Finish() empties segments and moves
  std::vector<planner::Stretch> stretches;  // rising windows; the same relative order on every host

  int32_t windows() const { return tapes.windows; }
  // The first array and box of the range [lo, hi) of a tape.
  struct Place {
    std::string array;
    planner::Box box;
  };
  Place PlaceOn(int32_t tape, int64_t lo, int64_t hi) const;
};

// The most that a program may take on the wire and, expanded, in memory: far beyond any real
// program.
inline constexpr int64_t kProgramBytesMax = int64_t{32} << 20;
inline constexpr size_t kProgramStretchesMax = size_t{1} << 24;
// The most that a host may move by one program, in slices of kSliceBytesMax: 16 TiB. The memory for
// the state of slices and chunks grows with the bytes moved, not with the program's size.
inline constexpr int64_t kProgramSlicesMax = int64_t{1} << 22;

// The plan that an attempt executes, as Prepare names it.
struct PlanId {
  std::string name;
  std::string fingerprint;
  std::string digest;  // Prepare.plan_digest; empty: an older server
  int32_t windows = 0;
};

// Assembles a program from the chunks of its stream.
class ProgramReader {
 public:
  // `devices` must outlive the reader.
  ProgramReader(const AttemptDevices* devices, PlanId plan,
                size_t stretches_max = kProgramStretchesMax,
                int64_t slices_max = kProgramSlicesMax);

  // FAILED_PRECONDITION if the chunk is of another plan: FINGERPRINT_MISMATCH if that answers
  // another request, PLAN_DIFFERS if it answers the same one in another way. INVALID_ARGUMENT if
  // the number of windows differs, RESOURCE_EXHAUSTED (PROGRAM_TOO_LARGE) if all chunks together
  // exceed kProgramBytesMax.
  absl::Status Add(const v1::HostProgram& chunk);

  // Returns the program, expanded. INVALID_ARGUMENT naming the field ("moves.hops[7]") if there
  // are no chunks, or they are not a program of this attempt and host; RESOURCE_EXHAUSTED
  // (PROGRAM_TOO_LARGE) above stretches_max or slices_max.
  absl::StatusOr<Program> Finish() &&;

 private:
  const AttemptDevices* const devices_;
  const PlanId plan_;
  const size_t stretches_max_;
  const int64_t slices_max_;
  bool begun_ = false;
  size_t bytes_ = 0;
  v1::HostProgram message_;  // all chunks so far
};

}  // namespace remesh::worker
