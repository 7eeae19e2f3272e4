// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/controller/machines.h"

namespace remesh::server {

// Part of the dispatcher: what comes over the streams of workers, and what hosts that come and go
// mean to the machines after membership.

void OnStreamMessage(const StreamMessage& message, Machines& machines, Moment now, Outbox& out);
void OnStreamEnded(StreamId stream, Machines& machines, Moment now, Outbox& out);
// Hears what was said before the server led.
void OnLeadershipBegun(Machines& machines, Moment now, Outbox& out);
// The journal has who the host is.
void OnHostAdmitted(const HostAdmitted& admitted, Machines& machines, Moment now, Outbox& out);

// Hands on what membership says of hosts.
void Carry(const HostFacts& facts, Machines& machines, Moment now, Outbox& out);
void DropSilentHosts(Machines& machines, Moment now, Outbox& out);
// Ends the host's stream, if it has one.
void DropHost(const HostAway& host, Machines& machines, Moment now, Outbox& out);
// Writes what relies on hosts, with their own records.
void PersistWithHosts(Reliance reliance, Machines& machines, Outbox& out);

}  // namespace remesh::server
