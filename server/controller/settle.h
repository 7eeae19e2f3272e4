// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "server/controller/machines.h"
#include "server/controller/reconcile.h"

namespace remesh::server {

// Part of the dispatcher: carries out what Reconcile() judges.

// Frees what is certainly free; the rest is owed until something more is known. Nothing is freed
// while the journal is behind.
void Settle(const std::vector<HeldGeneration>& held, Machines& machines, Outbox& out);
// The host holds these no longer, nor owes them.
void Free(const std::string& host, const std::vector<ManifestKey>& keys, Machines& machines,
          Outbox& out);

// What a host owes, and then, when it has attached anew: what of that it does not mention any more
// is gone, and makes its state LOST no longer.
std::vector<ManifestKey> OwedBy(const std::string& host, const Machines& machines);
void FreeUnmentioned(const std::string& host, const std::vector<ManifestKey>& owed,
                     Machines& machines, Outbox& out);

// What a host says that it holds when it comes. Its coming may free what others hold.
void SettleHost(const v1::Register& registration, Machines& machines, Outbox& out);
// What a host says that it holds of a generation by now.
void SettleManifest(const std::string& host, const v1::StateManifest& manifest, Machines& machines,
                    Outbox& out);

}  // namespace remesh::server
