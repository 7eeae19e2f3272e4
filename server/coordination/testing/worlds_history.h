// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/coordination/testing/schedule.h"

namespace remesh::server::coordination {

// Whether a member that got this ending of a round knows that its world is over.
bool EndsWorld(const std::string& ending);

// What happened in a simulation of worlds, against the laws of README.md. Not thread-safe.
class WorldsHistory {
 public:
  // What a member got from a round.
  struct Result {
    std::string ending;  // "OK", the reason of its failure, or "OVER" if it got none
    std::string what;    // digest or message
    std::string payload;
  };

  WorldsHistory(uint64_t seed, const Schedule& schedule) : seed_(seed), schedule_(schedule) {}

  // An epoch became the scope's present one.
  void OnRaised(const std::string& scope, int64_t epoch);
  // A member of this scope is told of it.
  void OnFormed(const std::string& scope, int64_t epoch);
  void OnResult(const std::string& scope, int64_t epoch, uint64_t sequence, int rank,
                Result result);
  // `own`: the step that the member had come to.
  void OnStepAgreed(const std::string& scope, int64_t epoch, int64_t step, int64_t own);
  // A write of a member of this epoch took effect, or was refused.
  void OnWrite(const std::string& scope, int64_t epoch, bool passes);

  // To be called at the end: no two members have different results of a round.
  void CheckRounds();

  void Count(const std::string& what) { ++counts_[what]; }
  void Violate(const std::string& what);
  const std::vector<std::string>& violations() const { return violations_; }
  // What happened how often: rounds by ending, restarts, and so on.
  const std::map<std::string, int>& counts() const { return counts_; }

 private:
  using Results = std::map<int, Result>;  // of a round, by rank
  struct Epoch {
    std::map<uint64_t, Results> rounds;
    std::optional<int64_t> step;
  };

  void CheckRounds(const std::string& epoch_name, const Epoch& epoch);
  void CheckRound(const std::string& where, const Results& results, bool later_ok);

  const uint64_t seed_;
  const Schedule& schedule_;
  std::map<std::string, std::map<int64_t, Epoch>> epochs_;  // by scope
  std::map<std::string, int64_t> formed_;                   // the highest that a member was told
  std::map<int64_t, std::string> scopes_;                   // of each epoch that was raised
  std::vector<std::string> violations_;
  std::map<std::string, int> counts_;
};

}  // namespace remesh::server::coordination
