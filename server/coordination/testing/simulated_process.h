// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/coordination/action.h"
#include "server/coordination/world.h"

namespace remesh::server::coordination {

struct SimulatedProcess;

// A scope, and who starts its processes.
struct SimulatedJob {
  std::string scope;
  int size = 1;
  int min_size = 1;
  bool asks_ranks = true;
  bool restarts_all = false;  // a launcher that ends all processes when one ends
  int attempt = 0;
  std::vector<SimulatedProcess*> at;  // the process of each place; null: none now
  absl::Time last_ok;
};

// A process, with what a client of the server keeps.
struct SimulatedProcess {
  uint64_t id = 0;
  SimulatedJob* job = nullptr;
  int place = 0;
  int attempt = 0;
  bool alive = true;
  bool stopped = false;
  std::vector<std::function<void()>> inbox;  // while it is stopped

  // Of its membership, as world_session.py keeps it.
  std::string nonce;
  int64_t epoch = 0;
  int rank = 0;
  int size = 0;
  bool in = false;
  bool over = false;
  SessionId session = 0;
  int connection = 0;  // counts them
  absl::Time heard;    // of its stream's last event
  std::optional<absl::Time> taken_since;

  // Of its rounds, as server_group.py keeps them.
  uint64_t sequence = 0;
  std::vector<Finished> finished;
  std::optional<int64_t> agreed;
  bool has_agreed = false;
  enum class Waits { kNothing, kRound, kStep } waits = Waits::kNothing;
  CallId call = 0;
  int reports = 0;  // how often it reported its rounds
  int asked = 0;    // the same when it called
  absl::Time since;
  absl::Time give_up;
  int64_t step = 0;

  // Does it now, or when the process goes on; never if it has died.
  void Run(std::function<void()> run) {
    if (!alive) return;
    if (!stopped) return run();
    inbox.push_back(std::move(run));
  }
  void Continue() {
    stopped = false;
    for (auto& run : std::exchange(inbox, {})) run();
  }
};

}  // namespace remesh::server::coordination
