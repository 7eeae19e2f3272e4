// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

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

}  // namespace remesh::server
