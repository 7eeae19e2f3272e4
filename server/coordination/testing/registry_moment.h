// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/coordination/registry.h"

namespace remesh::server::coordination {

// One moment of a model of one scope: the real Registry, its disk, and its processes with what is on
// its way to them.

// A process, and what is on its way to it.
struct ModelProcess {
  enum class Next { kBarrier, kStep, kLeave, kNothing };  // in this order

  int generation = 0;  // how often its place was filled before, or it made itself a new nonce
  bool streams = false;
  bool waits = false;  // for the answer to its call
  Next next = Next::kBarrier;
  int64_t epoch = 0;  // 0: it waits for a world
  std::vector<Finished> finished;
  std::optional<int64_t> agreed;

  std::optional<int64_t> formed;  // the epoch
  std::optional<std::string> answer;
  std::optional<Finished> outcome;   // that comes with it
  std::optional<std::string> ended;  // its stream, and why
};

struct Step {
  const char* what = "";
  int place = -1;
  std::shared_ptr<const Step> before;
};

struct Disk {
  int64_t last_epoch = 0;
  std::map<std::string, KnownEpoch> worlds;
};

struct Moment {
  Registry registry{0, {}, absl::UnixEpoch()};
  int64_t fence = 0;
  Disk disk;
  std::optional<SaveEpoch> save;
  bool saved = false;  // it is on disk, and the server does not know yet
  std::vector<ModelProcess> processes;
  absl::Time now = absl::UnixEpoch();
  int restarts = 0;
  int timeouts = 0;
  int deaths = 0;
  int64_t highest_formed = 0;        // epoch that was sent
  std::map<int64_t, int64_t> steps;  // agreed on, by epoch; -1: none was
  std::string violation;
  std::shared_ptr<const Step> last;
};

// The events that led to it, a line each.
std::string TrailOf(const Moment& moment);

// All that decides what may come next: moments of equal text have equal futures.
std::string TextOf(const Moment& moment);

}  // namespace remesh::server::coordination
