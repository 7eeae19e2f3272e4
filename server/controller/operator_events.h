// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/controller/machines.h"
#include "server/controller/values/event.h"
#include "server/controller/values/outbox.h"

namespace remesh::server {

// Requests of the process around the controller; the events document what each does.
void OnReconfigure(const Reconfigure& change, Machines& machines, Outbox& out);
void OnDrain(const Drain& drain, Machines& machines, Moment now, Outbox& out);

}  // namespace remesh::server
