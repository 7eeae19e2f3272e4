// SPDX-License-Identifier: Apache-2.0
#include "server/controller/machines.h"

#include <utility>

namespace remesh::server {

Machines::Machines(ControllerOptions asked, RandomBits bits, const Restored& restored)
    : options(std::move(asked)),
      random(std::move(bits)),
      journal(restored.past.sequence),
      leadership(restored.past, restored.epoch, restored.lost_leaderships, journal),
      membership(options, leadership),
      commands(options, leadership, membership.workers()),
      states(options, random, journal, membership, commands),
      executions(options, random, membership, states, commands),
      starts(options, random, journal, leadership, membership, states, executions),
      watches(membership.workers(), states.registry(), executions) {}

ControllerView Machines::view() const {
  return {options, journal, leadership, membership, states, executions, starts, owed};
}

}  // namespace remesh::server
