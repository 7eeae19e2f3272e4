// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "base/missing_field.h"
#include "base/problems.h"

namespace remesh {
namespace {

constexpr char kPayloadUrl[] = "remesh/error_info";
constexpr char kFurtherUrl[] = "remesh/further_problems";
constexpr char kField[] = "field";
constexpr char kValue[] = "value";
constexpr char kExpectation[] = "expectation";
constexpr char kMissing[] = "is missing; ";
constexpr size_t kShownValueMax = 200;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// A length-prefixed list of strings: no byte needs escaping, and no schema is shared with anyone.
void AppendString(std::string& out, std::string_view text) {
  absl::StrAppend(&out, text.size(), ":", View(text));
}

std::optional<std::string> TakeString(std::string_view& in) {
  size_t length = 0;
  size_t i = 0;
  for (; i < in.size() && in[i] >= '0' && in[i] <= '9'; ++i) length = length * 10 + (in[i] - '0');
  if (i == in.size() || in[i] != ':' || in.size() - i - 1 < length) return std::nullopt;
  std::string text(in.substr(i + 1, length));
  in.remove_prefix(i + 1 + length);
  return text;
}

// Escaped, but for the apostrophe: it ends nothing between double quotes.
std::string Shown(std::string_view value) {
  std::string shown = absl::StrReplaceAll(absl::CHexEscape(View(value.substr(0, kShownValueMax))),
                                          {{"\\\\", "\\\\"}, {"\\'", "'"}});
  if (value.size() > kShownValueMax) shown += "...";
  return shown;
}

absl::Status FieldStatus(absl::StatusCode code, const ErrorInfo& info) {
  const std::string& expectation = info.metadata.at(kExpectation);
  const bool missing = absl::StartsWith(expectation, kMissing);
  const std::string found =
      missing ? "" : absl::StrCat("value \"", info.metadata.at(kValue), "\" ");
  return MakeError(code, absl::StrCat(info.metadata.at(kField), ": ", found, expectation), info);
}

// "source" + "hlo_text" -> "source.hlo_text", "arrays" + "[3]" -> "arrays[3]".
std::string Joined(std::string_view path, const std::string& field) {
  const bool joins_with_dot = !field.empty() && field.front() != '[';
  return absl::StrCat(View(path), joins_with_dot ? "." : "", field);
}

// Copies the further problems of `from`, with `path` in front of their fields.
absl::Status FurtherAt(std::string_view path, const absl::Status& from, absl::Status to) {
  std::vector<FurtherProblem> further = FurtherProblems(from);
  if (further.empty()) return to;
  for (FurtherProblem& problem : further) problem.field = Joined(path, problem.field);
  return WithFurther(std::move(to), further);
}

std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

}  // namespace

absl::Status MakeError(absl::StatusCode code, std::string_view message, const ErrorInfo& info) {
  absl::Status status(code, View(message));
  std::string payload;
  AppendString(payload, info.reason);
  for (const auto& [key, value] : info.metadata) {
    AppendString(payload, key);
    AppendString(payload, value);
  }
  status.SetPayload(kPayloadUrl, absl::Cord(payload));
  return status;
}

absl::Status InvalidField(std::string_view field, std::string_view value,
                          std::string_view expectation) {
  return FieldStatus(absl::StatusCode::kInvalidArgument,
                     {.reason = "INVALID_FIELD",
                      .metadata = {{kField, std::string(field)},
                                   {kValue, Shown(value)},
                                   {kExpectation, std::string(expectation)}}});
}

absl::Status MissingField(std::string_view field, std::string_view expectation,
                          std::string_view unset) {
  return InvalidField(field, unset, absl::StrCat(kMissing, View(expectation)));
}

absl::Status AtField(std::string_view path, const absl::Status& status) {
  if (status.ok()) return status;
  ErrorInfo info = GetErrorInfo(status);
  auto field = info.metadata.find(kField);
  if (field == info.metadata.end() || !info.metadata.contains(kExpectation)) {
    absl::Status prefixed(status.code(), absl::StrCat(View(path), ": ", status.message()));
    if (auto payload = status.GetPayload(kPayloadUrl)) prefixed.SetPayload(kPayloadUrl, *payload);
    return FurtherAt(path, status, std::move(prefixed));
  }
  field->second = Joined(path, field->second);
  return FurtherAt(path, status, FieldStatus(status.code(), info));
}

absl::Status AtIndex(std::string_view list, size_t index, const absl::Status& status) {
  if (status.ok()) return status;
  return AtField(absl::StrCat(View(list), "[", index, "]"), status);
}

absl::Status WithFurther(absl::Status status, const std::vector<FurtherProblem>& further) {
  std::string payload;
  for (const FurtherProblem& problem : further) {
    AppendString(payload, problem.field);
    AppendString(payload, problem.description);
  }
  status.SetPayload(kFurtherUrl, absl::Cord(payload));
  return status;
}

std::vector<FurtherProblem> FurtherProblems(const absl::Status& status) {
  std::vector<FurtherProblem> further;
  const auto payload = status.GetPayload(kFurtherUrl);
  if (!payload) return further;
  const std::string bytes(*payload);
  std::string_view rest = bytes;
  while (!rest.empty()) {
    auto field = TakeString(rest);
    auto description = TakeString(rest);
    if (!field || !description) break;
    further.push_back({*std::move(field), *std::move(description)});
  }
  return further;
}

ErrorInfo GetErrorInfo(const absl::Status& status) {
  ErrorInfo info{.reason = CodeName(status.code()), .metadata = {}};
  auto payload = status.GetPayload(kPayloadUrl);
  if (!payload) return info;
  const std::string bytes(*payload);
  std::string_view rest = bytes;
  if (auto reason = TakeString(rest)) info.reason = *std::move(reason);
  while (!rest.empty()) {
    auto key = TakeString(rest);
    auto value = TakeString(rest);
    if (!key || !value) break;
    info.metadata[*key] = *value;
  }
  return info;
}

}  // namespace remesh
