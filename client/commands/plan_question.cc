// SPDX-License-Identifier: Apache-2.0
#include "client/commands/plan_question.h"

#include "base/status_macros.h"
#include "client/input.h"
#include "proto/spec/pathways.h"

namespace remesh {

void AddPlanQuestionFlags(CLI::App& app, PlanQuestion& question) {
  CLI::Option_group* one = app.add_option_group("Question", "One of");
  one->add_option("-f,--file", question.spec, "PlanSpec, JSON or YAML; - is stdin");
  CLI::Option* pathways =
      one->add_option("--pathways", question.pathways, "A reshardRequest of Pathways, JSON");
  one->require_option(1);
  CLI::Option* arrays =
      app.add_option("--arrays", question.arrays,
                     "Its arrays in order, JSON: [{\"name\",\"shape\",\"element_type\"}]");
  CLI::Option* topology =
      app.add_option("--topology", question.topology, "Its topology, JSON or YAML");
  pathways->needs(arrays);
  arrays->needs(pathways);
  topology->needs(pathways);
}

absl::StatusOr<v1::PlanSpec> ReadPlanQuestion(const PlanQuestion& question) {
  v1::PlanSpec spec;
  if (question.pathways.empty()) {
    RETURN_IF_ERROR(ReadMessage(question.spec, spec));
    return spec;
  }
  ASSIGN_OR_RETURN(const std::string request, ReadText(question.pathways));
  ASSIGN_OR_RETURN(const std::string arrays, ReadText(question.arrays));
  ASSIGN_OR_RETURN(spec, ParsePathways(request, arrays));
  if (!question.topology.empty()) {
    RETURN_IF_ERROR(ReadMessage(question.topology, *spec.mutable_topology()));
  }
  return spec;
}

}  // namespace remesh
