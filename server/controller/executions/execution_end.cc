// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/execution_end.h"

#include <google/protobuf/util/time_util.h>

#include "absl/strings/str_cat.h"
#include "server/controller/executions/execution_records.h"

namespace remesh::server {
namespace {

using google::protobuf::util::TimeUtil;

double SecondsBetween(const google::protobuf::Timestamp& begin,
                      const google::protobuf::Timestamp& end) {
  return static_cast<double>(TimeUtil::DurationToNanoseconds(end - begin)) / 1e9;
}

// Adds what the plan predicted and what the transfers took, which only a move that succeeded tells.
void AddPrediction(const v1::Execution& resource, ExecutionEnded& ended) {
  const double predicted = resource.summary().predicted_seconds();
  const bool told = resource.phase() == v1::Execution::SUCCEEDED && predicted > 0 &&
                    resource.has_transfer_start_time() && resource.has_transfer_end_time();
  if (!told) return;
  ended.predicted_seconds = predicted;
  ended.transfer_seconds =
      SecondsBetween(resource.transfer_start_time(), resource.transfer_end_time());
}

}  // namespace

ExecutionEnd EffectOf(const ExecutionEntry& entry, const StateEntry& state, Save what) {
  const v1::Execution& resource = entry.execution.resource();
  return {.state = state.name(),
          .abandoned_generation = AbandonedAfter(state, resource, what),
          .generation = resource.target_generation(),
          .target = what == Save::kSuccess ? entry.target : nullptr};
}

ExecutionEnded FiguresOf(const v1::Execution& resource) {
  ExecutionEnded ended{.phase = resource.phase(),
                       .seconds = SecondsBetween(resource.create_time(), resource.end_time())};
  AddPrediction(resource, ended);
  for (const v1::HostProgress& host : resource.hosts()) {
    ended.bytes_moved += static_cast<double>(host.received_bytes());
    ended.copied_bytes += static_cast<double>(host.copied_bytes());
  }
  return ended;
}

std::string EndLine(const v1::Execution& resource) {
  return absl::StrCat(resource.name(), " ended ", v1::Execution::Phase_Name(resource.phase()),
                      resource.has_error() ? ": " : "", resource.error().message());
}

}  // namespace remesh::server
