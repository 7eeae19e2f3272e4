// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/controller/machines.h"

namespace remesh::server {

// Part of the dispatcher: handles messages on workers' streams, and tells the machines after
// membership when hosts come and go.

void OnStreamMessage(const StreamMessage& message, Machines& machines, Moment now, Outbox& out);
void OnStreamEnded(StreamId stream, Machines& machines, Moment now, Outbox& out);
// Handles the messages that arrived before the server led.
void OnLeadershipBegun(Machines& machines, Moment now, Outbox& out);
// The host's identity is on disk.
void OnHostAdmitted(const HostAdmitted& admitted, Machines& machines, Moment now, Outbox& out);

// Hands membership's facts about hosts on to later machines.
void Carry(const HostFacts& facts, Machines& machines, Moment now, Outbox& out);
void DropSilentHosts(Machines& machines, Moment now, Outbox& out);
// Ends the host's stream, if it has one.
void DropHost(const HostAway& host, Machines& machines, Moment now, Outbox& out);
// Writes a transaction that relies on hosts, together with the hosts' own records.
void PersistWithHosts(Reliance reliance, Machines& machines, Outbox& out);

}  // namespace remesh::server
