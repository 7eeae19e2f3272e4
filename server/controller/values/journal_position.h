// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "remesh/v1/worker.pb.h"
#include "server/controller/values/journal_past.h"

namespace remesh::server {

// Whether the journal has gone back since a worker was sent `position`: it does not know the
// leadership that sent it, or knows it only up to an earlier transaction. `durable`: our
// last transaction on disk. Leaderships in `lost` were given up on purpose.
bool HasGoneBack(const JournalPast& past, uint64_t durable, const std::set<std::string>& lost,
                 const v1::JournalPosition& position);

}  // namespace remesh::server
