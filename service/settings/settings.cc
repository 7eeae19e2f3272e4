// SPDX-License-Identifier: Apache-2.0
#include "service/settings/settings.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/host_port.h"
#include "base/text/nearest.h"
#include "base/text/units.h"
#include "proto/text/yaml_to_json.h"

namespace remesh::service {
namespace {

absl::StatusOr<bool> ParseBool(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return absl::InvalidArgumentError("must be true or false");
}

absl::StatusOr<double> ParseDouble(const std::string& text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value) || value < 0) {
    return absl::InvalidArgumentError("must be a finite number >= 0");
  }
  return value;
}

absl::Status CheckAddress(const std::string& text, Settings::AddressForm form) {
  if (text.empty() && form.optional) return absl::OkStatus();
  const absl::Status invalid = absl::InvalidArgumentError(
      absl::StrCat("must be HOST:PORT, with a port from ", form.port_min, " to 65535"));
  const std::optional<HostPort> split = SplitHostPort(text);
  return split && split->port >= form.port_min ? absl::OkStatus() : invalid;
}

// Makes the setter of a row with one value, which `parse` reads.
template <typename T, typename Parse>
auto Setter(std::string key, T* target, Parse parse) {
  return [key = std::move(key), target, parse](const std::vector<std::string>& values,
                                               bool commit) -> absl::Status {
    if (values.size() != 1)
      return InvalidField(key, absl::StrJoin(values, ","), "must be one value");
    auto value = parse(values[0]);
    if (!value.ok()) {
      const std::string problem(value.status().message());
      return InvalidField(key, values[0], problem);
    }
    if (commit) *target = *std::move(value);
    return absl::OkStatus();
  };
}

// `text` as a YAML scalar that parses to the same text.
std::string Quoted(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '/' || c == '-';
  }) && absl::ascii_isalnum(text[0]);
  return plain ? text : nlohmann::json(text).dump();
}

// The shortest text that parses to the same number.
std::string Shortest(double value) {
  const std::string text = absl::StrCat(value);
  double read = 0;
  return absl::SimpleAtod(text, &read) && read == value ? text : absl::StrFormat("%.17g", value);
}

std::string QuotedList(const std::vector<std::string>& items) {
  std::vector<std::string> quoted;
  for (const std::string& item : items) quoted.push_back(Quoted(item));
  return absl::StrCat("[", absl::StrJoin(quoted, ", "), "]");
}

// "# " lines of at most 100 columns.
std::string Comment(const std::string& text) {
  std::string out, line = "#";
  const std::vector<std::string> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  for (const std::string& word : words) {
    if (line.size() + 1 + word.size() > 100) {
      absl::StrAppend(&out, line, "\n");
      line = "#";
    }
    absl::StrAppend(&line, " ", word);
  }
  return absl::StrCat(out, line, "\n");
}

// The strings of a YAML value, which is a scalar or a list of scalars.
absl::StatusOr<std::vector<std::string>> ValuesOf(const std::string& key,
                                                  const nlohmann::json& value) {
  if (value.is_string()) return std::vector<std::string>{value.get<std::string>()};
  if (value.is_array()) {
    std::vector<std::string> values;
    for (const nlohmann::json& item : value) {
      if (!item.is_string()) return InvalidField(key, item.dump(), "must be a plain value");
      values.push_back(item.get<std::string>());
    }
    return values;
  }
  return InvalidField(key, value.is_null() ? "" : value.dump(), "must be a plain value");
}

// Parses a settings file into a map. A file with only comments gives an empty map, which is valid.
absl::StatusOr<nlohmann::json> MapOf(std::string_view yaml) {
  const std::vector<std::string> lines =
      absl::StrSplit(absl::string_view(yaml.data(), yaml.size()), '\n');
  const bool empty = std::all_of(lines.begin(), lines.end(), [](const std::string& line) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    return text.empty() || text[0] == '#';
  });
  if (empty) return nlohmann::json::object();
  ASSIGN_OR_RETURN(const std::string json, proto::YamlToJson(yaml));
  nlohmann::json document = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return InvalidField("file", json, "must be a map from keys to values");
  return document;
}

absl::StatusOr<std::string> AnyText(const std::string& text) { return text; }

absl::Status UnknownKey(const std::string& key, const std::vector<std::string>& keys) {
  const std::string nearest = Nearest(key, keys);
  ErrorInfo info{.reason = "UNKNOWN_KEY", .metadata = {{"key", key}}};
  if (!nearest.empty()) info.metadata["nearest"] = nearest;
  const std::string hint = nearest.empty() ? "; --print-config shows all"
                                           : absl::StrCat("; did you mean \"", nearest, "\"?");
  return MakeError(absl::StatusCode::kInvalidArgument,
                   absl::StrCat("unknown key \"", key, "\"", hint), info);
}

}  // namespace

void Settings::Section(std::string title) { next_section_ = std::move(title); }

void Settings::Add(Row row) {
  REMESH_CHECK(Find(row.key) == nullptr);
  if (row.text) row.default_text = row.text();
  if (!row.is_retired) {
    row.section = std::exchange(next_section_, "");
    keys_.push_back(row.key);
  }
  rows_.push_back(std::move(row));
}

void Settings::AddString(std::string key, std::string* value, std::string doc) {
  auto set = Setter(key, value, AnyText);
  Add({.key = std::move(key), .doc = std::move(doc), .set = std::move(set), .text = [value] {
         return Quoted(*value);
       }});
}

void Settings::AddAddress(std::string key, std::string* value, std::string doc, AddressForm form) {
  auto set = Setter(key, value, [form](const std::string& text) -> absl::StatusOr<std::string> {
    RETURN_IF_ERROR(CheckAddress(text, form));
    return text;
  });
  Add({.key = std::move(key), .doc = std::move(doc), .set = std::move(set), .text = [value] {
         return Quoted(*value);
       }});
}

void Settings::AddStrings(std::string key, std::vector<std::string>* value, std::string doc) {
  auto set = [value](const std::vector<std::string>& values, bool commit) {
    if (commit) *value = values;
    return absl::OkStatus();
  };
  Add({.key = std::move(key), .doc = std::move(doc), .is_list = true, .set = set, .text = [value] {
         return QuotedList(*value);
       }});
}

void Settings::AddBool(std::string key, bool* value, std::string doc) {
  auto set = Setter(key, value, ParseBool);
  Add({.key = std::move(key), .doc = std::move(doc), .set = std::move(set), .text = [value] {
         return *value ? "true" : "false";
       }});
}

void Settings::AddObject(std::string key, std::string* json, std::string doc) {
  auto set = Setter(key, json, AnyText);
  Add({.key = std::move(key),
       .doc = std::move(doc),
       .is_object = true,
       .set = std::move(set),
       .text = [json] { return json->empty() ? "{}" : *json; }});
}

void Settings::AddInt(std::string key, int64_t* value, std::string doc, int64_t min, int64_t max) {
  auto set = Setter(key, value, [min, max](const std::string& text) -> absl::StatusOr<int64_t> {
    int64_t number = 0;
    if (absl::SimpleAtoi(text, &number) && number >= min && number <= max) return number;
    return absl::InvalidArgumentError(
        absl::StrCat("must be a whole number from ", min, " to ", max));
  });
  Add({.key = std::move(key), .doc = std::move(doc), .set = std::move(set), .text = [value] {
         return absl::StrCat(*value);
       }});
}

void Settings::AddDouble(std::string key, double* value, std::string doc) {
  auto set = Setter(key, value, ParseDouble);
  Add({.key = std::move(key), .doc = std::move(doc), .set = std::move(set), .text = [value] {
         return Shortest(*value);
       }});
}

void Settings::AddDuration(std::string key, std::chrono::nanoseconds* value, std::string doc,
                           std::chrono::nanoseconds min) {
  using Duration = std::chrono::nanoseconds;
  auto set = Setter(key, value, [min](const std::string& text) -> absl::StatusOr<Duration> {
    ASSIGN_OR_RETURN(const Duration duration, ParseDuration(text));
    if (duration >= min) return duration;
    return absl::InvalidArgumentError(absl::StrCat("must be at least ", FormatDuration(min)));
  });
  Add({.key = std::move(key), .doc = std::move(doc), .set = std::move(set), .text = [value] {
         return FormatDuration(*value);
       }});
}

void Settings::AddBytes(std::string key, int64_t* value, std::string doc) {
  auto set = Setter(key, value, ParseBytes);
  Add({.key = std::move(key), .doc = std::move(doc), .set = std::move(set), .text = [value] {
         return FormatByteSize(*value);
       }});
}

void Settings::AddRetired(std::string key, std::string value) {
  auto set = [key, value](const std::vector<std::string>& values, bool) -> absl::Status {
    if (values == std::vector<std::string>{value}) return absl::OkStatus();
    return InvalidField(key, absl::StrJoin(values, ","), "has no effect any more: remove it");
  };
  Add({.key = std::move(key), .doc = "", .is_retired = true, .set = std::move(set)});
}

std::vector<std::string> Settings::IgnoredKeys() const {
  std::vector<std::string> keys;
  for (const Row& row : rows_) {
    if (row.is_given) keys.push_back(row.key);
  }
  return keys;
}

Settings::Row* Settings::Find(const std::string& key) {
  const auto found =
      std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.key == key; });
  return found == rows_.end() ? nullptr : &*found;
}

absl::Status Settings::SetRow(const std::string& key, const nlohmann::json& value, bool commit) {
  Row* row = Find(key);
  if (row == nullptr) return UnknownKey(key, keys_);
  std::vector<std::string> values = {value.dump()};
  if (!row->is_object) {
    ASSIGN_OR_RETURN(values, ValuesOf(key, value));
  }
  row->is_given = row->is_retired && commit;
  return row->set(values, commit);
}

std::vector<absl::Status> Settings::Problems(std::string_view yaml) {
  const absl::StatusOr<nlohmann::json> document = MapOf(yaml);
  if (!document.ok()) return {document.status()};
  std::vector<absl::Status> problems;
  for (const auto& [key, value] : document->items()) {
    const absl::Status status = SetRow(key, value, /*commit=*/false);
    if (!status.ok()) problems.push_back(status);
  }
  return problems;
}

absl::Status Settings::Load(std::string_view yaml) {
  ASSIGN_OR_RETURN(const nlohmann::json document, MapOf(yaml));
  for (const bool commit : {false, true}) {
    for (const auto& [key, value] : document.items()) RETURN_IF_ERROR(SetRow(key, value, commit));
  }
  return absl::OkStatus();
}

absl::Status Settings::Set(const std::string& key, const std::string& value) {
  Row* row = Find(key);
  if (row == nullptr) return UnknownKey(key, keys_);
  row->is_given = row->is_retired;
  if (!row->is_list) return row->set({value}, true);
  return row->set(absl::StrSplit(value, ',', absl::SkipEmpty()), true);
}

void Settings::AddFlags(CLI::App& app) {
  std::string group = "Settings";
  for (Row& row : rows_) {
    if (!row.section.empty()) group = row.section;
    const std::string flag = absl::StrCat("--", absl::StrReplaceAll(row.key, {{"_", "-"}}));
    app.add_option(flag, row.flag_values, row.doc)
        ->expected(1)
        ->take_last()
        ->type_name("")
        ->default_str(row.default_text)
        ->group(row.is_retired ? "" : group);  // "": not in --help
  }
}

absl::Status Settings::ApplyFlagsOf(const Settings& other) {
  for (const Row& row : other.rows_) {
    if (!row.flag_values.empty()) RETURN_IF_ERROR(Set(row.key, row.flag_values.back()));
  }
  return absl::OkStatus();
}

void Settings::Live(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    Row* row = Find(std::string(key));
    REMESH_CHECK(row != nullptr);
    row->is_live = true;
  }
}

std::map<std::string, Settings::Value> Settings::Values() const {
  std::map<std::string, Value> values;
  for (const Row& row : rows_) {
    if (!row.is_retired) values[row.key] = {.text = row.text(), .live = row.is_live};
  }
  return values;
}

std::string Settings::Example(std::string_view header) const {
  return Document(header, [](const Row& row) { return row.default_text; });
}

std::string Settings::InForce(std::string_view header) const {
  return Document(header, [](const Row& row) { return row.text(); });
}

std::string Settings::Document(std::string_view header,
                               absl::FunctionRef<std::string(const Row&)> text_of) const {
  std::string out = Comment(std::string(header));
  for (const Row& row : rows_) {
    if (row.is_retired) continue;
    if (!row.section.empty()) absl::StrAppend(&out, "\n# ---- ", row.section, " ----\n");
    const std::string text = text_of(row);
    const std::string live = row.is_live ? " (Takes effect without a restart.)" : "";
    absl::StrAppend(&out, "\n", Comment(row.doc + live), text == row.default_text ? "# " : "",
                    row.key, ": ", text, "\n");
  }
  return out;
}

}  // namespace remesh::service
