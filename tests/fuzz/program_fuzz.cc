// SPDX-License-Identifier: Apache-2.0
#include "proto/program/program_proto.h"
#include "tests/fuzz/inputs.pb.h"
#include "tests/fuzz/target.h"
#include "worker/execution/program.h"

namespace remesh::fuzz {
namespace {

// Whether it can be expanded in no time; the limits of ReadProgram() allow a minute.
bool IsShort(const proto::NamedProgram& named) {
  const planner::Schedule& schedule = named.program.schedule;
  const int64_t parts =
      static_cast<int64_t>(named.program.moves.size()) * (int64_t{schedule.parts} + schedule.hops);
  return parts <= 1 << 14 && named.program.atoms.size() <= 1 << 10 && named.arrays.size() <= 64;
}

// What was read is written and read back equal.
void CheckReadsBack(const proto::NamedProgram& named) {
  v1::HostProgram merged;
  proto::WriteProgram(
      named, [&](const v1::HostProgram& chunk) { return merged.MergeFrom(chunk), true; }, 256);
  const auto again = proto::ReadProgram(merged);
  REMESH_CHECK(again.ok() && *again == named);
}

}  // namespace
}  // namespace remesh::fuzz

REMESH_FUZZ_PROTO(remesh::fuzz::ProgramInput, input) {
  using namespace remesh;
  v1::HostProgram merged;
  for (const v1::HostProgram& chunk : input.chunks()) merged.MergeFrom(chunk);
  const auto named = proto::ReadProgram(merged);
  if (!named.ok()) fuzz::CheckRefusal(named.status());
  if (!named.ok() || !fuzz::IsShort(*named)) return;
  fuzz::CheckReadsBack(*named);

  const auto devices = worker::AttemptDevices::Make(input.prepare());
  if (!devices.ok()) return fuzz::CheckRefusal(devices.status());
  const v1::Prepare& prepare = input.prepare();
  worker::ProgramReader reader(&*devices,
                               {.fingerprint = prepare.fingerprint(),
                                .digest = prepare.plan_digest(),
                                .windows = prepare.windows()},
                               1 << 16);
  for (const v1::HostProgram& chunk : input.chunks()) {
    const absl::Status status = reader.Add(chunk);
    if (!status.ok()) return fuzz::CheckRefusal(status);
  }
  const auto program = std::move(reader).Finish();
  if (!program.ok()) fuzz::CheckRefusal(program.status());
}
