// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "server/controller/controller_view.h"
#include "server/controller/values/event.h"

namespace remesh::server {

// Answers to requests that change nothing. Pure.
absl::StatusOr<Reply> Answer(const v1::GetStateRequest& request, const ControllerView& view);
absl::StatusOr<Reply> Answer(const v1::ListStatesRequest& request, const ControllerView& view);
absl::StatusOr<Reply> Answer(const v1::GetExecutionRequest& request, const ControllerView& view);
absl::StatusOr<Reply> Answer(const v1::ListExecutionsRequest& request, const ControllerView& view);
absl::StatusOr<Reply> Answer(const v1::ListWorkersRequest& request, const ControllerView& view);

// For metrics.
struct ControllerGauges {
  int64_t workers = 0;
  int64_t workers_alive = 0;
  int64_t workers_drained = 0;
  int64_t workers_of_other_version = 0;  // alive, of another release than this server
  std::map<v1::State::Phase, int64_t> states;
  int64_t executions_running = 0;
  int64_t owed_generations = 0;  // on workers: neither usable nor proved to be free
  int64_t owed_bytes = 0;
  bool journal_behind = false;
  bool journal_full = false;
  bool journal_lost = false;
};
ControllerGauges GaugesOf(const ControllerView& view);

}  // namespace remesh::server
