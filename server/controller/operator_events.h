// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/controller/event.h"
#include "server/controller/machines.h"
#include "server/controller/outbox.h"

namespace remesh::server {

// What the process around the controller asks of it; what each does is said at the event.
void OnReconfigure(const Reconfigure& change, Machines& machines, Outbox& out);
void OnDrain(const Drain& drain, Machines& machines, Moment now, Outbox& out);

}  // namespace remesh::server
