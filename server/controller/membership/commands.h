// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "remesh/v1/worker.pb.h"
#include "server/controller/leadership/leadership.h"
#include "server/controller/membership/worker_registry.h"
#include "server/controller/values/controller_options.h"
#include "server/controller/values/outbox.h"

namespace remesh::server {

// The time between heartbeats of a worker that attaches as one of so many. One heartbeat costs the
// server some 50 microseconds, so what the options say holds for up to 1024 workers; among more the
// time grows with their number. It ends at half of lost_after, so that a heartbeat may be late by
// as much as that before its host is lost, and at half of stall_timeout, because heartbeats report
// progress.
Timestamp HeartbeatInterval(const ControllerOptions& options, size_t workers);

// Puts commands to workers into an outbox, with the epoch and the journal's position; cuts long
// ones into parts. Has no state of its own. Not thread-safe.
class Commands {
 public:
  Commands(const ControllerOptions& options, const Leadership& leadership,
           const WorkerRegistry& workers)
      : options_(options), leadership_(leadership), workers_(workers) {}

  // Sends nothing to a host that is away, and nothing but Welcome while the journal is behind.
  void Send(const std::string& host, v1::AttachResponse command, Outbox& out) const;
  // The same for a command that is made when its turn to be written comes. `bytes`: that it takes once
  // made, roughly.
  void SendLater(const std::string& host, size_t bytes, std::function<v1::AttachResponse()> make,
                 Outbox& out) const;
  // Answers `registration`.
  void SendWelcome(const v1::Register& registration, Outbox& out) const;

 private:
  const ControllerOptions& options_;
  const Leadership& leadership_;
  const WorkerRegistry& workers_;
};

}  // namespace remesh::server
