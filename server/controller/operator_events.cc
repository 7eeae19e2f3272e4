// SPDX-License-Identifier: Apache-2.0
#include "server/controller/operator_events.h"

namespace remesh::server {

void OnReconfigure(const Reconfigure& change, Machines& machines, Outbox& out) {
  const LiveOptions& asked = *change.options;
  const absl::Status fits = machines.membership.SetTopologyRules(asked.topology_rules, out);
  if (!fits.ok()) return out.Reply(change.call, fits);
  ControllerOptions& options = machines.options;
  options.execution_deadline = asked.execution_deadline;
  options.states_max = asked.states_max;
  options.states_per_job = asked.states_per_job;
  options.bytes_per_job = asked.bytes_per_job;
  options.encrypts_data = asked.encrypts_data;
  options.finished_executions_max = asked.finished_executions_max;
  options.join_token_hashes = asked.join_token_hashes;
  out.Reply(change.call, google::protobuf::Empty());
}

void OnDrain(const Drain& drain, Machines& machines, Moment now, Outbox& out) {
  using Step = Execution::Step;
  machines.starts.BeginDrain();
  machines.executions.Stop(drain.at_once ? Step::kVerifying : Step::kQueued, ServerStops(), now,
                           out);
}

}  // namespace remesh::server
