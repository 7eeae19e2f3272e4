// SPDX-License-Identifier: Apache-2.0
#include "proto/text/text.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/text/json_guard.h"
#include "proto/text/spec_json.h"
#include "proto/text/text_limits.h"
#include "proto/text/yaml_to_json.h"

namespace remesh::proto {
namespace {

bool IsJson(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

// "TYPE_INT64" -> "int64", "type.googleapis.com/remesh.v1.PlanOptions" -> "remesh.v1.PlanOptions".
std::string TypeName(const std::string& type) {
  const size_t slash = type.rfind('/');
  if (slash != std::string::npos) return type.substr(slash + 1);
  return absl::AsciiStrToLower(absl::StrReplaceAll(type, {{"TYPE_", ""}}));
}

// Turns protobuf's "(path): invalid value V for type T" into a field error. The path may be
// missing.
absl::Status FieldError(const std::string& json, const std::string& message) {
  std::string path, rest = message;
  const size_t close = message.find(") ");
  const size_t close_colon = message.find("): ");
  if (!message.empty() && message[0] == '(' && std::min(close, close_colon) != std::string::npos) {
    const size_t end = std::min(close, close_colon);
    path = PathWithKeys(json, message.substr(1, end - 1));
    rest = message.substr(message.find_first_not_of("): ", end));
  }
  constexpr char kInvalid[] = "invalid value ", kFor[] = " for type ";
  const size_t split = rest.rfind(kFor);
  if (absl::StartsWith(rest, kInvalid) && split != std::string::npos) {
    std::string value = rest.substr(sizeof(kInvalid) - 1, split - (sizeof(kInvalid) - 1));
    const std::string type = rest.substr(split + sizeof(kFor) - 1);
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
    if (type == "oneof") return InvalidField(path, value, "must be set alone");
    return InvalidField(path, value, absl::StrCat("is not a valid ", TypeName(type)));
  }
  return InvalidField(path.empty() ? "text" : path, rest, "is not a valid message");
}

}  // namespace

absl::Status ParseText(std::string_view text, google::protobuf::Message& message) {
  message.Clear();
  std::string json;
  if (IsJson(text)) {
    json = std::string(text);
  } else {
    ASSIGN_OR_RETURN(json, YamlToJson(text));
  }
  RETURN_IF_ERROR(CheckJson(json));
  const SpecJson spec = ReadSpecJson(json, *message.GetDescriptor());
  const auto status = google::protobuf::util::JsonStringToMessage(spec.json, &message);
  if (!spec.problems.ok()) return spec.problems;
  return status.ok() ? absl::OkStatus() : FieldError(spec.json, std::string(status.message()));
}

std::string ToJson(const google::protobuf::Message& message, bool pretty) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.add_whitespace = pretty;
  std::string json;
  // Fails only for an Any of an unknown type.
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  return status.ok() ? json : absl::StrCat("{\"error\":\"", std::string(status.message()), "\"}");
}

}  // namespace remesh::proto
