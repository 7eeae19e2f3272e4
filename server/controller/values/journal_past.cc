// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/journal_past.h"

namespace remesh::server {

bool HasGoneBack(const JournalPast& past, uint64_t durable, const std::set<std::string>& lost,
                 const v1::JournalPosition& position) {
  if (position.leadership().empty()) return false;  // the worker was never sent a leadership
  if (position.leadership() == past.leadership) return position.sequence() > durable;
  if (lost.contains(position.leadership())) return false;
  const auto end = past.ends.find(position.leadership());
  return end == past.ends.end() || position.sequence() >= end->second;
}

}  // namespace remesh::server
