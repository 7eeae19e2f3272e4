// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/server/losses.h"

namespace remesh::server {

void Losses::Die(const ModelWorker& worker) {
  ++deaths_;
  // Nothing relies on what is pending yet.
  for (const Part& part : worker.parts(true)) lost_[part] = {};
  for (const Part& part : worker.parts(false)) lost_[part] = {.death = deaths_, .heard = kNever};
}

void Losses::OnReport(int deaths, uint64_t time) {
  for (auto& [part, loss] : lost_) {
    if (loss.death > deaths) loss.heard = kNever;
    if (loss.death <= deaths && loss.heard == kNever) loss.heard = time;
  }
}

void Losses::GoBack() {
  for (const Part& part : freed_) lost_[part] = {};
}

bool Losses::unheard(const Part& part, uint64_t time) const {
  const auto loss = lost_.find(part);
  return loss != lost_.end() && time < loss->second.heard;
}

}  // namespace remesh::server
