// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::client {

// Where `remeshctl plan` has its question from: a PlanSpec, or a request of Pathways with the
// shapes that it leaves out; over its own topology, or another.
struct PlanQuestion {
  std::string spec;
  std::string pathways;
  std::string arrays;
  std::string topology;
  std::string preset;

  const std::string& file() const { return pathways.empty() ? spec : pathways; }
  // OK, or the refusal of what ReadPlanQuestion() read, with the file that the field stands in.
  absl::Status Refusal(const absl::Status& status) const;
};

// -f FILE, or --pathways FILE --arrays FILE; [--topology FILE | --preset NAME].
void AddPlanQuestionFlags(CLI::App& app, PlanQuestion& question);

// Its file's name without folder and ending: what a title may call it; "" for stdin.
std::string LabelOf(const PlanQuestion& question);

absl::StatusOr<v1::PlanSpec> ReadPlanQuestion(const PlanQuestion& question);

}  // namespace remesh::client
