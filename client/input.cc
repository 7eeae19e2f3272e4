// SPDX-License-Identifier: Apache-2.0
#include "client/input.h"

#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/problems.h"
#include "base/status_macros.h"
#include "client/files/mapped_file.h"
#include "client/spec_problems.h"
#include "proto/text/text.h"
#include "remesh/v1/plan.pb.h"
#include "remesh/v1/reshard.pb.h"
#include "remesh/v1/state.pb.h"

namespace remesh::client {
namespace {

constexpr int64_t kBytesMax = int64_t{64} << 20;

absl::StatusOr<std::string> ReadStdin() {
  static const auto* const text = new std::string(ReadAtMost(std::cin, kBytesMax + 1));
  if (static_cast<int64_t>(text->size()) > kBytesMax) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat("stdin is longer than ", kBytesMax, " bytes"),
                     {.reason = "FILE_TOO_LARGE",
                      .metadata = {{"path", "-"}, {"max_bytes", absl::StrCat(kBytesMax)}}});
  }
  return *text;
}

// What a file of this kind has.
std::string Describe(const google::protobuf::Message& kind) {
  const std::string& name = kind.GetDescriptor()->name();
  if (name == "PlanSpec") return "the spec of a plan";
  if (name == "State") return "a state";
  if (name == "StateSpec") return "the spec of a state";
  if (name == "Targets") return "the targets of a move";
  return name == "Topology" ? "a topology" : name;
}

// Where a file of this kind belongs.
std::string PlaceOf(const google::protobuf::Message& kind) {
  const std::string& name = kind.GetDescriptor()->name();
  if (name == "PlanSpec") return "which remeshctl plan -f reads";
  if (name == "State") return "which remeshctl states create -f reads";
  if (name == "StateSpec") return "which goes below spec: in a file for remeshctl states create";
  if (name == "Targets") return "which remeshctl reshard -f reads";
  return "which remeshctl plan --topology reads";
}

// Names the kind of message that the text is instead of `wanted`: users hand a PlanSpec to a
// command that wants a State.
std::string OtherKind(const std::string& text, const google::protobuf::Message& wanted) {
  v1::PlanSpec plan_spec;
  v1::State state;
  v1::StateSpec state_spec;
  v1::Targets targets;
  v1::Topology topology;
  google::protobuf::Message* const kinds[] = {&targets, &state_spec, &plan_spec, &state, &topology};
  for (google::protobuf::Message* kind : kinds) {
    if (kind->GetDescriptor() == wanted.GetDescriptor() || !proto::ParseText(text, *kind).ok())
      continue;
    return absl::StrCat("; this looks like ", Describe(*kind), ", ", PlaceOf(*kind),
                        "; this command expects ", Describe(wanted));
  }
  return "";
}

}  // namespace

absl::StatusOr<std::string> ReadText(const std::string& path) {
  return path == "-" ? ReadStdin() : ReadFile(path, kBytesMax);
}

absl::Status CheckFolder(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return absl::OkStatus();
  const bool there = std::filesystem::exists(path, error);
  return MakeError(absl::StatusCode::kNotFound,
                   absl::StrCat(path, there ? " is not a folder" : ": no such folder"),
                   {.reason = "FILE_NOT_FOUND", .metadata = {{"path", path}}});
}

absl::Status AtFile(const std::string& path, const absl::Status& status) {
  const ErrorInfo info = GetErrorInfo(status);
  const bool of_text = info.reason == "INVALID_FIELD" || info.reason == "INVALID_TEXT";
  if (!of_text || info.metadata.contains("file")) return status;
  const absl::StatusOr<std::string> text = ReadText(path);
  return AtText(path == "-" ? "stdin" : path, text.ok() ? *text : "", status);
}

absl::Status ReadMessage(const std::string& path, google::protobuf::Message& message) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  const absl::Status status = proto::ParseText(text, message);
  if (status.ok()) return status;
  const std::string name = path == "-" ? "stdin" : path;
  if (GetErrorInfo(status).reason != "INVALID_FIELD") return AtText(name, text, status);
  const std::string other = OtherKind(text, message);
  if (other.empty()) return AtText(name, text, WithMeaning(status, message));
  const absl::Status first = AtText(name, text, WithFurther(status, {}));
  return MakeError(first.code(), absl::StrCat(std::string(first.message()), other),
                   GetErrorInfo(first));
}

}  // namespace remesh::client
