// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "tests/simulation/server/model_worker.h"

namespace remesh::server {

// Parts of generations that a worker may lack, and why. Times are those of events that servers
// handled.
class Losses {
 public:
  static constexpr uint64_t kNever = ~uint64_t{0};

  // The machine dies with all that the worker holds.
  void Die(const ModelWorker& worker);
  int deaths() const { return deaths_; }
  // So many deaths are what the server knows of at `time`; it may receive late what was sent before
  // the last one. What it does not know of, it takes for present.
  void OnReport(int deaths, uint64_t time);

  // The server had these freed.
  void Free(const std::set<Part>& parts) { freed_.insert(parts.begin(), parts.end()); }
  // The journal goes back to a time when what was freed since may have been needed.
  void GoBack();
  // An operator said so: it is a part of nothing that must be kept.
  void Discard(const Part& part) { discarded_.insert(part); }

  // Whether the part is lost, whoever needs it.
  bool lost(const Part& part) const { return lost_.contains(part); }
  // Whether the server could not know of the loss at `time`.
  bool unheard(const Part& part, uint64_t time) const;
  bool discarded(const Part& part) const { return discarded_.contains(part); }

 private:
  struct Loss {
    int death = 0;       // of the machine, by number; 0: none is to blame
    uint64_t heard = 0;  // by the server
  };

  int deaths_ = 0;
  std::map<Part, Loss> lost_;
  std::set<Part> freed_, discarded_;
};

}  // namespace remesh::server
