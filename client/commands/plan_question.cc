// SPDX-License-Identifier: Apache-2.0
#include "client/commands/plan_question.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/input.h"
#include "proto/convert/device_count.h"
#include "proto/convert/pathways.h"
#include "proto/convert/presets/presets.h"

namespace remesh::client {

void AddPlanQuestionFlags(CLI::App& app, PlanQuestion& question) {
  CLI::Option_group* one = app.add_option_group("Question", "One of");
  one->add_option("-f,--file", question.spec, "PlanSpec, JSON or YAML; - is stdin");
  CLI::Option* pathways =
      one->add_option("--pathways", question.pathways, "A reshardRequest of Pathways, JSON");
  one->require_option(1);
  CLI::Option* arrays =
      app.add_option("--arrays", question.arrays,
                     "Its arrays in order, JSON or YAML: [{name, shape, element_type}]");
  pathways->needs(arrays);
  arrays->needs(pathways);
  CLI::Option* topology = app.add_option("--topology", question.topology,
                                         "A Topology to plan over, instead of the spec's");
  app.add_option("--preset", question.preset,
                 "Plan over machines of this kind, numbered from device 0 on, instead of the "
                 "spec's topology; see remeshctl topology list")
      ->excludes(topology);
}

namespace {

absl::StatusOr<v1::PlanSpec> ReadSpec(const PlanQuestion& question) {
  v1::PlanSpec spec;
  if (question.pathways.empty()) {
    RETURN_IF_ERROR(ReadMessage(question.spec, spec));
    return spec;
  }
  ASSIGN_OR_RETURN(const std::string request, ReadText(question.pathways));
  ASSIGN_OR_RETURN(const std::string arrays, ReadText(question.arrays));
  return proto::ParsePathways(request, arrays);
}

// A topology of as many machines of the preset as the spec's devices fill.
absl::StatusOr<v1::Topology> ClusterFor(const v1::PlanSpec& spec, const std::string& preset_name) {
  ASSIGN_OR_RETURN(const v1::TopologyPreset* preset, proto::FindPreset(preset_name, "--preset"));
  const int64_t devices = std::max<int64_t>(proto::DeviceCountOf(spec), 1);
  return proto::MakeTopology(
      {.preset = preset_name, .hosts = (devices - 1) / preset->devices() + 1});
}

}  // namespace

absl::Status PlanQuestion::Refusal(const absl::Status& status) const {
  const std::string field = GetErrorInfo(status).metadata["field"];
  if (!absl::StartsWith(field, "topology")) return AtFile(file(), status);
  if (!preset.empty()) return status;
  return AtFile(topology.empty() ? file() : topology, status);
}

std::string LabelOf(const PlanQuestion& question) {
  const std::string& file = question.file();
  return file == "-" ? "" : std::filesystem::path(file).stem().string();
}

absl::StatusOr<v1::PlanSpec> ReadPlanQuestion(const PlanQuestion& question) {
  ASSIGN_OR_RETURN(v1::PlanSpec spec, ReadSpec(question));
  if (!question.topology.empty()) {
    spec.mutable_topology()->Clear();
    RETURN_IF_ERROR(ReadMessage(question.topology, *spec.mutable_topology()));
  }
  if (!question.preset.empty()) {
    ASSIGN_OR_RETURN(*spec.mutable_topology(), ClusterFor(spec, question.preset));
  }
  return spec;
}

}  // namespace remesh::client
