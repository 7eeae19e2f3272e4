// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::client {

// The source of the question for `remeshctl plan`: a PlanSpec, or a request of Pathways with the
// array shapes that it leaves out; over its own topology or another.
struct PlanQuestion {
  std::string spec;
  std::string pathways;
  std::string arrays;
  std::string topology;
  std::string preset;

  const std::string& file() const { return pathways.empty() ? spec : pathways; }
  // OK, or the error of ReadPlanQuestion()'s input, with the file that has the field.
  absl::Status Refusal(const absl::Status& status) const;
};

// -f FILE, or --pathways FILE --arrays FILE; [--topology FILE | --preset NAME].
void AddPlanQuestionFlags(CLI::App& app, PlanQuestion& question);

// The name of the question's file without folder and extension, for titles; "" for stdin.
std::string LabelOf(const PlanQuestion& question);

absl::StatusOr<v1::PlanSpec> ReadPlanQuestion(const PlanQuestion& question);

}  // namespace remesh::client
