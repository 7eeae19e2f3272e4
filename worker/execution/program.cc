// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/program.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/element_type.h"
#include "worker/store/box_message.h"

namespace remesh {
namespace {

absl::StatusOr<Program::Array> ReadArray(const v1::ProgramArray& message) {
  ASSIGN_OR_RETURN(const ElementType type, ParseElementType(message.element_type()));
  Program::Array array{message.name(), Shape(message.shape().begin(), message.shape().end()),
                       BitWidth(type)};
  RETURN_IF_ERROR(ValidateShape(array.shape, array.bits_per_element));
  return array;
}

absl::StatusOr<Space> ReadSpace(const char* field, v1::Space space) {
  switch (space) {
    case v1::SPACE_SOURCE:
      return Space::kSource;
    case v1::SPACE_TARGET:
      return Space::kTarget;
    case v1::SPACE_STAGING:
      return Space::kStaging;
    default:
      return InvalidField(field, absl::StrCat(static_cast<int>(space)), "must be a space");
  }
}

}  // namespace

ProgramReader::ProgramReader(const AttemptDevices* devices, std::string fingerprint,
                             int32_t windows)
    : devices_(devices), fingerprint_(std::move(fingerprint)), windows_(windows) {}

absl::Status ProgramReader::Begin(const v1::HostProgramChunk& first) {
  if (first.fingerprint() != fingerprint_) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("the program is of plan ", first.fingerprint(), ", not of ", fingerprint_),
        {"FINGERPRINT_MISMATCH", {{"found", first.fingerprint()}, {"expected", fingerprint_}}});
  }
  if (first.windows() != windows_ || windows_ < 0) {
    return InvalidField("windows", absl::StrCat(first.windows()),
                        absl::StrCat("must be ", windows_));
  }
  program_.windows = windows_;
  for (int i = 0; i < first.arrays_size(); ++i) {
    auto array = ReadArray(first.arrays(i));
    if (!array.ok()) return AtField(absl::StrCat("arrays[", i, "]"), array.status());
    program_.arrays.push_back(*std::move(array));
  }
  begun_ = true;
  return absl::OkStatus();
}

absl::Status ProgramReader::Add(const v1::HostProgramChunk& chunk) {
  if (!begun_) RETURN_IF_ERROR(Begin(chunk));
  for (const v1::ProgramOperation& message : chunk.operations()) {
    auto operation = Read(message);
    if (!operation.ok()) {
      return AtField(absl::StrCat("operations[", program_.operations.size(), "]"),
                     operation.status());
    }
    program_.operations.push_back(*std::move(operation));
  }
  return absl::OkStatus();
}

absl::StatusOr<Program::Operation> ProgramReader::Read(const v1::ProgramOperation& message) const {
  const int32_t window_min = program_.operations.empty() ? 0 : program_.operations.back().window;
  if (message.window() < window_min || message.window() >= windows_) {
    return InvalidField("window", absl::StrCat(message.window()),
                        absl::StrCat("must be in [", window_min, ", ", windows_, ")"));
  }
  if (message.array() < 0 || static_cast<size_t>(message.array()) >= program_.arrays.size()) {
    return InvalidField("array", absl::StrCat(message.array()),
                        absl::StrCat("must be in [0, ", program_.arrays.size(), ")"));
  }
  Program::Operation operation{.window = message.window(), .array = message.array()};
  auto box = BoxInArray(message.box(), program_.arrays[message.array()].shape);
  if (!box.ok()) return AtField("box", box.status());
  operation.box = *std::move(box);
  operation.from = devices_->OrdinalOf(message.from_device());
  operation.to = devices_->OrdinalOf(message.to_device());
  if (operation.from < 0 || operation.to < 0) {
    const bool from = operation.from < 0;
    return InvalidField(from ? "from_device" : "to_device",
                        absl::StrCat(from ? message.from_device() : message.to_device()),
                        "must be a device of the peer table");
  }
  if (!devices_->here(operation.from) && !devices_->here(operation.to)) {
    return InvalidField("from_device", absl::StrCat(message.from_device()),
                        "must be of this host, or to_device");
  }
  ASSIGN_OR_RETURN(operation.from_space, ReadSpace("from_space", message.from_space()));
  ASSIGN_OR_RETURN(operation.to_space, ReadSpace("to_space", message.to_space()));
  if (operation.to_space == Space::kSource)
    return InvalidField("to_space", "SPACE_SOURCE", "is never written");
  operation.staging_key = message.staging_key();
  return operation;
}

absl::StatusOr<Program> ProgramReader::Finish() && {
  if (!begun_) return InvalidField("chunks", "0", "must be at least one");
  return std::move(program_);
}

}  // namespace remesh
