// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace remesh::server {

// What a journal says of itself when it is opened: who it is, and which leaderships wrote it. Every
// life of the server on a journal is one leadership, with a random id that is on disk before the
// first command. So a worker that was told a position by a leadership that the journal does not
// know, or one beyond that leadership's end, has seen a later journal than this one.
struct JournalPast {
  std::string cluster_uid;  // of the cluster; given back to a journal that is made anew
  std::string journal_uid;  // of this file, for people who accept an older one
  std::string leadership;   // ours
  uint64_t sequence = 0;    // last transaction on disk; the one that began our leadership
  std::map<std::string, uint64_t> ends;  // earlier leadership -> first sequence of the one after it
  // Somebody restored the journal on purpose: what it does not know of its future is lost.
  bool accepts_older = false;
};

}  // namespace remesh::server
