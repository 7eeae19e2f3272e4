// SPDX-License-Identifier: Apache-2.0
#include "client/yaml_output.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/text/text.h"

namespace remesh::client {
namespace {

using Json = nlohmann::ordered_json;

// Whether YAML would read the word as something other than a string.
bool IsReserved(const std::string& word) {
  constexpr const char* kWords[] = {"true", "false", "yes",  "no",  "on",  "off",
                                    "y",    "n",     "null", "nan", "inf", "infinity"};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](const char* reserved) { return absl::EqualsIgnoreCase(word, reserved); });
}

// A scalar that parses to the same value. JSON strings are valid YAML.
std::string Scalar(const Json& value) {
  if (!value.is_string()) return value.dump();
  const std::string& text = value.get_ref<const std::string&>();
  const bool plain =
      !text.empty() && absl::ascii_isalpha(text[0]) && !IsReserved(text) &&
      std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '/' || c == '-';
      });
  return plain ? text : value.dump();
}

bool IsScalar(const Json& value) { return !value.is_structured(); }

// "[a, b]" for an array of scalars.
std::string Flow(const Json& array) {
  std::string text;
  for (const Json& item : array) absl::StrAppend(&text, text.empty() ? "" : ", ", Scalar(item));
  return absl::StrCat("[", text, "]");
}

void Append(const Json& value, int indent, std::string& out);

// Appends the value after "key:" or "-".
void AppendValue(const Json& value, int indent, std::string& out) {
  if (IsScalar(value)) {
    absl::StrAppend(&out, " ", Scalar(value), "\n");
  } else if (value.empty()) {
    absl::StrAppend(&out, value.is_object() ? " {}\n" : " []\n");
  } else if (value.is_array() && std::all_of(value.begin(), value.end(), IsScalar)) {
    absl::StrAppend(&out, " ", Flow(value), "\n");
  } else {
    out += "\n";
    Append(value, indent, out);
  }
}

// Appends the members of an object or the items of an array, each on an indented line.
void Append(const Json& value, int indent, std::string& out) {
  const std::string margin(indent, ' ');
  for (const auto& [key, item] : value.items()) {
    if (value.is_object()) {
      absl::StrAppend(&out, margin, Scalar(key), ":");
      AppendValue(item, indent + 2, out);
      continue;
    }
    // The item's first member goes behind the dash.
    std::string lines;
    Append(item, indent + 2, lines);
    if (!lines.empty()) lines[indent] = '-';
    out += lines.empty() ? margin + "- {}\n" : lines;
  }
}

}  // namespace

std::string ToYaml(const google::protobuf::Message& message) {
  return ToYaml(Json::parse(proto::ToJson(message, /*pretty=*/false)));
}

std::string ToYaml(const Json& object) {
  if (object.empty()) return "{}\n";
  std::string text;
  Append(object, 0, text);
  return text;
}

}  // namespace remesh::client
