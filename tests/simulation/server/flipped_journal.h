// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace remesh::server {

// What a server finds that opens a journal of which a bit flipped while it was down.
struct FlippedJournal {
  bool refused = false;
  std::map<std::string, std::string> records;  // that it goes on with
  std::string wrong;  // what breaks the law: refused by name, or the same; empty: nothing
};

// Writes `records` to a real journal up to transaction `sequence`, ends that, by a crash or in
// order, flips one bit of one of its files, and opens it. A journal that is refused is restored
// from the files as they were. Where and how is chosen by `choice`; what a journal chooses by
// itself, such as its uid, is not, so that the same choice may once hit what matters and once not.
// REQUIRES: `sequence` is above 10.
FlippedJournal ReopenFlipped(const std::map<std::string, std::string>& records, uint64_t sequence,
                             uint64_t choice);

}  // namespace remesh::server
