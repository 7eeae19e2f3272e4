// SPDX-License-Identifier: Apache-2.0
#include "server/controller/membership/commands.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "server/controller/values/assignment_parts.h"

namespace remesh::server {

using google::protobuf::util::TimeUtil;

Timestamp HeartbeatInterval(const ControllerOptions& options, size_t workers) {
  constexpr size_t kWorkers = 1024;
  const Timestamp asked = options.heartbeat_interval;
  Timestamp most = options.lost_after / 2;
  if (options.stall_timeout.count() > 0) most = std::min(most, options.stall_timeout / 2);
  if (most <= asked || workers <= kWorkers) return asked;
  return std::min(most, asked * static_cast<int64_t>(workers) / static_cast<int64_t>(kWorkers));
}

void Commands::Send(const std::string& host, v1::AttachResponse command, Outbox& out) const {
  const WorkerEntry* worker = workers_.Find(host);
  if (worker == nullptr || !worker->alive()) return;
  if (leadership_.behind() && !command.has_welcome()) return;
  for (v1::AttachResponse& part : CutAssignment(std::move(command))) {
    leadership_.Sign(part);
    out.Add(SendToWorker{.stream = worker->stream, .message = std::move(part)});
  }
}

void Commands::SendLater(const std::string& host, size_t bytes,
                         std::function<v1::AttachResponse()> make, Outbox& out) const {
  const WorkerEntry* worker = workers_.Find(host);
  if (worker == nullptr || !worker->alive() || leadership_.behind()) return;
  v1::AttachResponse head;
  leadership_.Sign(head);
  const auto make_parts = [head = std::move(head), make = std::move(make)] {
    std::vector<v1::AttachResponse> parts = CutAssignment(make());
    for (v1::AttachResponse& part : parts) part.MergeFrom(head);
    return parts;
  };
  out.Add(server::SendLater{.stream = worker->stream,
                            .commands = {.bytes = bytes, .make = make_parts}});
}

void Commands::SendWelcome(const v1::Register& registration, Outbox& out) const {
  v1::AttachResponse message;
  v1::Welcome& welcome = *message.mutable_welcome();
  const Timestamp heartbeats = HeartbeatInterval(options_, workers_.workers().size());
  *welcome.mutable_heartbeat_interval() = TimeUtil::NanosecondsToDuration(heartbeats.count());
  *welcome.mutable_lost_after() = TimeUtil::NanosecondsToDuration(options_.lost_after.count());
  welcome.set_cluster_uid(leadership_.cluster_uid());
  welcome.set_incarnation(registration.incarnation());
  for (const v1::WorkerDevice& device : registration.devices()) welcome.add_device_ids(device.id());
  Send(registration.host(), std::move(message), out);
}

}  // namespace remesh::server
