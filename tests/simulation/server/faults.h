// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>

namespace remesh::server {

// What can break in the simulated world.
enum class Fault : int8_t {
  kServerCrash,
  kServerPause,       // its process is stopped for a while, and goes on
  kJournalRollback,   // the volume is restored from a snapshot, or the end of a file is lost
  kStreamEnd,         // the server is soon told
  kStreamSilence,     // the server is not told
  kWorkerDeath,       // of the process: its record and its manifests are left
  kMachineDeath,      // nothing is left
  kForeignWorker,     // another cluster's worker dials this server
  kTornWrite,         // trainers write a state again, and some of them die
  kAttemptFailure,    // on one host
  kCrashAfterCommit,  // of the server: what it wrote is there, and no caller knows
  kBitFlip,           // in a file of the journal, while the server is down
};

// When a fault is drawn.
enum class Occasion : int8_t {
  kStep,     // each 100 ms of the world's time
  kCommand,  // each command for an attempt, on the host that gets it
  kCommit,   // each transaction of the journal
  kStart,    // each start of the server
};

struct FaultRow {
  Fault fault;
  const char* name;
  Occasion occasion;
  double probability;  // at its occasion, at scale 1
};

inline constexpr FaultRow kFaults[] = {
    {Fault::kServerCrash, "server_crash", Occasion::kStep, 0.022},
    {Fault::kServerPause, "server_pause", Occasion::kStep, 0.022},
    {Fault::kJournalRollback, "journal_rollback", Occasion::kStep, 0.011},
    {Fault::kStreamEnd, "stream_end", Occasion::kStep, 0.022},
    {Fault::kStreamSilence, "stream_silence", Occasion::kStep, 0.022},
    {Fault::kWorkerDeath, "worker_death", Occasion::kStep, 0.031},
    {Fault::kMachineDeath, "machine_death", Occasion::kStep, 0.013},
    {Fault::kForeignWorker, "foreign_worker", Occasion::kStep, 0.022},
    {Fault::kTornWrite, "torn_write", Occasion::kStep, 0.022},
    {Fault::kAttemptFailure, "attempt_failure", Occasion::kCommand, 0.02},
    {Fault::kCrashAfterCommit, "crash_after_commit", Occasion::kCommit, 0.005},
    {Fault::kBitFlip, "bit_flip", Occasion::kStart, 1.0},
};

// Draws which faults happen, and counts them.
class Faults {
 public:
  struct Options {
    double scale = 1;         // of all probabilities
    std::set<Fault> without;  // these never happen
  };

  Faults(uint64_t seed, Options options) : random_(seed), options_(std::move(options)) {}

  // Whether the fault happens at this occasion.
  bool Draw(Fault fault);
  bool may_happen(Fault fault) const { return !stopped_ && !options_.without.contains(fault); }
  // From now on none happens.
  void Stop() { stopped_ = true; }
  // Times that each happened.
  const std::map<Fault, int>& injected() const { return injected_; }

 private:
  std::mt19937_64 random_;
  const Options options_;
  bool stopped_ = false;
  std::map<Fault, int> injected_;
};

}  // namespace remesh::server
