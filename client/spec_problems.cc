// SPDX-License-Identifier: Apache-2.0
#include "client/spec_problems.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/problems.h"
#include "base/text/visible.h"
#include "proto/convert/plan_spec.h"
#include "proto/text/field_places.h"
#include "remesh/v1/plan.pb.h"
#include "remesh/v1/state.pb.h"

namespace remesh::client {
namespace {

constexpr size_t kShownColumnsMax = 160;  // of a line of the file

// ---- bad syntax

// The line with a caret below the column; "" when there is no such line.
std::string Excerpt(const std::string& text, size_t line, size_t column) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (line < 1 || line > lines.size() || column < 1 || column > kShownColumnsMax) return "";
  std::string shown(lines[line - 1].substr(0, kShownColumnsMax));
  std::replace(shown.begin(), shown.end(), '\t', ' ');
  while (!shown.empty() && (shown.back() == '\r' || shown.back() == ' ')) shown.pop_back();
  if (shown.empty()) return "";
  return absl::StrCat("\n  ", Visible(shown), "\n  ", std::string(column - 1, ' '), "^");
}

absl::Status AtSyntax(const std::string& file, const std::string& text,
                      const absl::Status& status) {
  ErrorInfo info = GetErrorInfo(status);
  size_t line = 0, column = 0;
  const bool placed = absl::SimpleAtoi(info.metadata["line"], &line) &&
                      absl::SimpleAtoi(info.metadata["column"], &column);
  info.metadata["file"] = file;
  const std::string message =
      placed ? absl::StrCat(file, ":", line, ":", column, ": ", info.metadata["problem"],
                            Excerpt(text, line, column))
             : absl::StrCat(file, ": ", std::string(status.message()));
  return MakeError(status.code(), message, info);
}

// ---- bad fields

// A problem and its place.
struct Placed {
  std::string field;
  std::string message;
  size_t line = 0;
  ErrorInfo info;
};

std::string Prefix(const std::string& file, size_t line) {
  return line == 0 ? absl::StrCat(file, ": ") : absl::StrCat(file, ":", line, ": ");
}

std::vector<Placed> AllOf(const absl::Status& status) {
  const ErrorInfo info = GetErrorInfo(status);
  std::vector<Placed> all = {{info.metadata.at("field"), std::string(status.message()), 0, info}};
  for (const FurtherProblem& problem : FurtherProblems(status)) {
    all.push_back({problem.field,
                   absl::StrCat(problem.field, ": ", problem.description),
                   0,
                   {.reason = info.reason, .metadata = {{"field", problem.field}}}});
  }
  return all;
}

void FindLines(const std::string& text, std::vector<Placed>& problems) {
  std::vector<std::string> fields;
  for (const Placed& problem : problems) fields.push_back(problem.field);
  const std::vector<proto::TextPlace> places = proto::FindPlaces(text, fields);
  for (size_t i = 0; i < problems.size(); ++i) problems[i].line = places[i].line;
  std::stable_sort(problems.begin(), problems.end(),
                   [](const Placed& a, const Placed& b) { return a.line < b.line; });
}

// ---- what the planner says

// The part of a path that stands for an independent entry: "arrays[3]" of "arrays[3].source.ref".
std::string EntryOf(const std::string& field) {
  const size_t end = field.find(']');
  return end == std::string::npos ? field : field.substr(0, end + 1);
}

absl::Status Convert(const google::protobuf::Message& message) {
  if (const auto* spec = dynamic_cast<const v1::PlanSpec*>(&message))
    return proto::ToReshardRequest(*spec, nullptr).status();
  if (const auto* state = dynamic_cast<const v1::State*>(&message))
    return AtField("spec", proto::ToStateLayout(state->spec(), nullptr).status());
  if (const auto* spec = dynamic_cast<const v1::StateSpec*>(&message))
    return proto::ToStateLayout(*spec, nullptr).status();
  return absl::OkStatus();
}

// Whether a problem may follow from one of the text, or from what only the server knows.
bool MayFollow(const std::string& field, const std::vector<Placed>& of_text) {
  if (absl::EndsWith(field, "topology.hosts")) return true;
  const auto same = [&](const Placed& problem) {
    return absl::StartsWith(field, EntryOf(problem.field));
  };
  return std::any_of(of_text.begin(), of_text.end(), same);
}

}  // namespace

absl::Status AtText(const std::string& file, const std::string& text, const absl::Status& status) {
  const ErrorInfo info = GetErrorInfo(status);
  if (info.reason == "INVALID_TEXT") return AtSyntax(file, text, status);
  if (!info.metadata.contains("field")) {
    return MakeError(status.code(), Prefix(file, 0) + std::string(status.message()), info);
  }
  std::vector<Placed> all = AllOf(status);
  FindLines(text, all);
  std::vector<FurtherProblem> further;
  for (size_t i = 1; i < all.size(); ++i)
    further.push_back({"", Prefix(file, all[i].line) + all[i].message});
  Placed& first = all[0];
  first.info.metadata["file"] = file;
  if (first.line > 0) first.info.metadata["line"] = absl::StrCat(first.line);
  const absl::Status placed =
      MakeError(status.code(), Prefix(file, first.line) + first.message, first.info);
  return further.empty() ? placed : WithFurther(placed, further);
}

absl::Status WithMeaning(const absl::Status& problems, const google::protobuf::Message& message) {
  const absl::Status meant = Convert(message);
  if (!absl::IsInvalidArgument(meant) || GetErrorInfo(meant).reason != "INVALID_FIELD")
    return problems;
  const std::vector<Placed> of_text = AllOf(problems);
  std::vector<FurtherProblem> all = FurtherProblems(problems);
  for (Placed& problem : AllOf(meant)) {
    if (all.size() == Problems::kFurtherMax || MayFollow(problem.field, of_text)) continue;
    const size_t start = problem.field.size() + 2;  // behind "FIELD: "
    all.push_back({problem.field, problem.message.substr(std::min(start, problem.message.size()))});
  }
  return all.empty() ? problems : WithFurther(problems, all);
}

}  // namespace remesh::client
