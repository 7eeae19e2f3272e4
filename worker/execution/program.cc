// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/program.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "worker/execution/messages.h"

namespace remesh::worker {

using proto::NamedProgram;

namespace {

absl::Status TooLarge(const char* what, int64_t most) {
  const std::string limit = absl::StrCat(most);
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("the program has more than ", limit, " ", what),
                   {"PROGRAM_TOO_LARGE", {{"limit", limit}, {"of", what}}});
}

absl::Status PlanDiffers(const PlanId& plan, const std::string& found) {
  const std::string is = absl::BytesToHexString(found);
  const std::string expected = absl::BytesToHexString(plan.digest);
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("the program is of a ", plan.name, " with digest ", is,
                                "; the attempt executes the one with digest ", expected),
                   {"PLAN_DIFFERS", {{"plan", plan.name}, {"found", is}, {"expected", expected}}});
}

// The attempt's ordinals of the program's devices.
absl::StatusOr<std::vector<int>> Ordinals(const NamedProgram& named,
                                          const AttemptDevices& devices) {
  std::vector<int> ordinals;
  for (const int64_t id : named.devices) {
    ordinals.push_back(devices.OrdinalOf(id));
    if (ordinals.back() >= 0) continue;
    return InvalidField(absl::StrCat("devices[", ordinals.size() - 1, "]"), absl::StrCat(id),
                        "must be a device of the peer table");
  }
  return ordinals;
}

absl::Status CheckEnds(const NamedProgram& named, const std::vector<int>& ordinals,
                       const AttemptDevices& devices) {
  for (size_t i = 0; i < named.program.moves.size(); ++i) {
    const planner::Move& move = named.program.moves[i];
    if (devices.here(ordinals[move.from_device]) || devices.here(ordinals[move.to_device]))
      continue;
    return InvalidField(absl::StrCat("moves.from_devices[", i, "]"),
                        absl::StrCat(named.devices[move.from_device]),
                        "must be of this host, or to_devices");
  }
  return absl::OkStatus();
}

}  // namespace

ProgramReader::ProgramReader(const AttemptDevices* devices, PlanId plan, size_t stretches_max,
                             int64_t slices_max)
    : devices_(devices),
      plan_(std::move(plan)),
      stretches_max_(stretches_max),
      slices_max_(slices_max) {}

absl::Status ProgramReader::Add(const v1::HostProgram& chunk) {
  bytes_ += chunk.ByteSizeLong();
  if (bytes_ > kProgramBytesMax) return TooLarge("bytes", kProgramBytesMax);
  message_.MergeFrom(chunk);
  begun_ = true;
  const std::string& fingerprint = message_.fingerprint();
  if (fingerprint != plan_.fingerprint) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("the program is of plan ", fingerprint, ", not of ", plan_.fingerprint),
        {"FINGERPRINT_MISMATCH", {{"found", fingerprint}, {"expected", plan_.fingerprint}}});
  }
  const std::string& digest = message_.plan_digest();
  if (!digest.empty() && !plan_.digest.empty() && digest != plan_.digest) {
    return PlanDiffers(plan_, digest);
  }
  if (message_.schedule().windows() == plan_.windows) return absl::OkStatus();
  return InvalidField("schedule.windows", absl::StrCat(message_.schedule().windows()),
                      absl::StrCat("must be ", plan_.windows));
}

absl::StatusOr<Program> ProgramReader::Finish() && {
  if (!begun_) return InvalidField("chunks", "0", "must be at least one");
  ASSIGN_OR_RETURN(NamedProgram named, proto::ReadProgram(message_));
  const bool compared = !plan_.digest.empty() && !message_.plan_digest().empty();
  message_.Clear();
  ASSIGN_OR_RETURN(const std::vector<int> ordinals, Ordinals(named, *devices_));
  RETURN_IF_ERROR(CheckEnds(named, ordinals, *devices_));
  Program program{.arrays = std::move(named.arrays),
                  .plan_compared = compared,
                  .tapes = std::move(named.program)};
  absl::Status fits;
  int64_t bits_left = slices_max_ * kSliceBytesMax * 8;
  planner::ForEachStretch(program.tapes, [&](planner::Stretch stretch) {
    bits_left -= std::min(stretch.hi - stretch.lo, bits_left + 1);
    if (program.stretches.size() == stretches_max_) fits = TooLarge("stretches", stretches_max_);
    if (bits_left < 0) fits = TooLarge("slices", slices_max_);
    if (!fits.ok()) return false;
    stretch.from_device = ordinals[stretch.from_device];
    stretch.to_device = ordinals[stretch.to_device];
    program.stretches.push_back(stretch);
    return true;
  });
  RETURN_IF_ERROR(fits);
  for (auto* spent : {&program.tapes.segment_numbers, &program.tapes.cut_begin}) *spent = {};
  program.tapes.segments = {};
  program.tapes.moves = {};
  program.tapes.cuts = {};
  return program;
}

Program::Place Program::PlaceOn(int32_t tape, int64_t lo, int64_t hi) const {
  Place place;
  bool first = true;
  tapes.geometry.ForEachBox(tapes.RunsOfTape(tape), lo, hi, 0,
                            [&](int32_t array, const planner::Box& box) {
                              if (std::exchange(first, false)) place = {arrays[array].name, box};
                            });
  return place;
}

}  // namespace remesh::worker
