// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/controller/reconcile/reconcile.h"
#include "server/controller/values/outbox.h"
#include "server/controller/values/records.h"

namespace remesh::server {

// What workers hold that can be neither used nor proved to be free. It stays until more is known of
// it, or an operator gives it up. A value beside Reconcile(). Not thread-safe.
class Owed {
 public:
  struct Entry {
    v1::StateManifest manifest;
    std::string reason;
    bool newer = false;  // newer than the journal knows
  };

  // Notes a generation whose verdict is kOwed. The report of a host that is not `durable` makes no
  // state LOST.
  void Note(const HeldGeneration& held, const Verdict& verdict, bool durable, Outbox& out);
  void Drop(const std::string& host, const ManifestKey& key);

  // Null: not owed.
  const Entry* Find(const std::string& host, const ManifestKey& key) const;
  // By generation and host.
  const std::map<std::pair<ManifestKey, std::string>, Entry>& entries() const { return entries_; }
  // Everything owed of all states that have or had this name.
  std::vector<HeldGeneration> OfState(const std::string& state) const;
  // Those of them that are newer than the journal knows.
  std::vector<HeldGeneration> NewerOf(const std::string& state) const;
  // What a host owes of one state. FAILED_PRECONDITION (NOT_OWED): nothing.
  absl::StatusOr<v1::DiscardShardsResponse> OnHost(const std::string& host,
                                                   const StateKey& state) const;
  // Hosts with a generation of the state that is newer than the journal knows.
  std::set<std::string> NewerHosts(const StateKey& state) const;

 private:
  void ForgetNewer(const std::string& host, const ManifestKey& key);

  std::map<std::pair<ManifestKey, std::string>, Entry> entries_;
  std::set<std::pair<ManifestKey, std::string>> newer_;  // of entries_
  std::map<StateKey, std::set<std::string>> newer_hosts_;
};

}  // namespace remesh::server
