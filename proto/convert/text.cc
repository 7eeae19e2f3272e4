// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/status_macros.h"
#include "proto/convert/json_guard.h"
#include "proto/convert/text_limits.h"
#include "proto/convert/yaml_to_json.h"

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

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

const FieldDescriptor* FieldOf(const Descriptor& type, const std::string& name) {
  if (const FieldDescriptor* field = type.FindFieldByName(name)) return field;
  return type.FindFieldByCamelcaseName(name);
}

// The message type at a path of protobuf's JSON parser ("shardings[0].value.devices"), or null.
const Descriptor* TypeAt(const Descriptor* type, std::string_view path) {
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(path.data(), path.size()), '.', absl::SkipEmpty());
  for (const std::string& part : parts) {
    const FieldDescriptor* field = FieldOf(*type, part.substr(0, part.find('[')));
    if (field == nullptr || field->message_type() == nullptr) return nullptr;
    type = field->message_type();
  }
  return type;
}

// "; did you mean ..." for a field that the message at `path` does not have.
std::string NearestField(const Descriptor* root, std::string_view path, const std::string& name) {
  const Descriptor* type = TypeAt(root, path);
  if (type == nullptr) return "";
  // Uses the caller's spelling: lowerCamel when the name has a capital.
  const bool camel = std::any_of(name.begin(), name.end(), absl::ascii_isupper);
  std::vector<std::string> names;
  for (int i = 0; i < type->field_count(); ++i) {
    names.push_back(camel ? type->field(i)->json_name() : type->field(i)->name());
  }
  return DidYouMean(name, names);
}

// Turns protobuf's "(path): invalid value V for type T" or "(path) name: Cannot find field." into a
// field error. The path may be missing.
absl::Status FieldError(const std::string& json, const Descriptor* type,
                        const std::string& message) {
  std::string raw_path, path, rest = message;
  const size_t close = message.find(") ");
  const size_t close_colon = message.find("): ");
  if (!message.empty() && message[0] == '(' && std::min(close, close_colon) != std::string::npos) {
    const size_t end = std::min(close, close_colon);
    raw_path = message.substr(1, end - 1);
    path = PathWithKeys(json, raw_path);
    rest = message.substr(message.find_first_not_of("): ", end));
  }
  constexpr char kUnknown[] = ": Cannot find field.";
  if (absl::EndsWith(rest, kUnknown)) {
    const std::string name = rest.substr(0, rest.size() - (sizeof(kUnknown) - 1));
    return InvalidField(absl::StrCat(path, path.empty() ? "" : ".", name), name,
                        absl::StrCat("is not a known field", NearestField(type, raw_path, name)));
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
  const auto status = google::protobuf::util::JsonStringToMessage(json, &message);
  if (status.ok()) return absl::OkStatus();
  return FieldError(json, message.GetDescriptor(), std::string(status.message()));
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
