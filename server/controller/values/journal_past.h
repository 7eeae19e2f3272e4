// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "remesh/v1/worker.pb.h"

namespace remesh::server {

// What a journal says of itself when it is opened: its identity, and which leaderships wrote it.
// Every life of the server on a journal is one leadership, with a random id that is on disk before
// the first command. So if a leadership that the journal does not know sent a worker a position, or
// a known leadership sent it one beyond that leadership's end, the worker has seen a later journal
// than this one.
struct JournalPast {
  std::string cluster_uid;  // a new journal gets it again
  std::string journal_uid;  // of this file, for operators who accept an older one
  std::string leadership;   // ours
  uint64_t sequence = 0;    // of the last transaction on disk, which began our leadership
  std::map<std::string, uint64_t> ends;  // earlier leadership -> first sequence of the one after it
  // An operator restored the journal on purpose: transactions that it lacks are given up.
  bool accepts_older = false;
};

// Whether the journal has gone back since a worker was sent `position`: it does not know the
// leadership that sent it, or knows it only up to an earlier transaction. `durable`: our last
// transaction on disk. Leaderships in `lost` were given up on purpose.
bool HasGoneBack(const JournalPast& past, uint64_t durable, const std::set<std::string>& lost,
                 const v1::JournalPosition& position);

}  // namespace remesh::server
