// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "server/controller/machines.h"
#include "server/controller/reconcile/reconcile.h"

namespace remesh::server {

// Part of the dispatcher: carries out the judgements of Reconcile().

// Frees what is certainly free; everything else is owed until more is known. Frees nothing while
// the journal is behind.
void Settle(const std::vector<HeldGeneration>& held, Machines& machines, Outbox& out);
// The host no longer holds or owes these generations.
void Free(const std::string& host, const std::vector<ManifestKey>& keys, Machines& machines,
          Outbox& out);

// OwedBy(): what a host owes. FreeUnmentioned(): the host has attached again; the part of `owed`
// that it no longer mentions is gone and no longer makes its state LOST.
std::vector<ManifestKey> OwedBy(const std::string& host, const Machines& machines);
void FreeUnmentioned(const std::string& host, const std::vector<ManifestKey>& owed,
                     Machines& machines, Outbox& out);

// Settles what a host reports to hold when it registers. Its coming may free what other hosts hold.
void SettleHost(const v1::Register& registration, Machines& machines, Outbox& out);
// Settles what a host now reports to hold of one generation.
void SettleManifest(const std::string& host, const v1::StateManifest& manifest, Machines& machines,
                    Outbox& out);

}  // namespace remesh::server
