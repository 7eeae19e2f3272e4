// SPDX-License-Identifier: Apache-2.0
#include "server/cache/eviction.h"

namespace remesh::server {

void EvictionCounts::Count(EvictionCause cause) {
  switch (cause) {
    case EvictionCause::kBytes:
      ++bytes;
      break;
    case EvictionCause::kEntries:
      ++entries;
      break;
    case EvictionCause::kAge:
      ++age;
      break;
    case EvictionCause::kCorrupt:
      ++corrupt;
      break;
    case EvictionCause::kFlushed:
      ++flushed;
      break;
  }
}

}  // namespace remesh::server
