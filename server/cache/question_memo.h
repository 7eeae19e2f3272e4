// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "planner/values/topology.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::server {

// SHA-256, so that a forged spec cannot take another's place.
using QuestionDigest = std::array<uint8_t, 32>;

// The digest of everything that a question's answer depends on: the spec, word for word, and
// `workers` if the spec's topology is empty.
QuestionDigest DigestOf(const v1::PlanSpec& spec, const planner::Topology* workers);

// Remembers the names of plans by the text of the questions that led to them, so that a question
// asked again in the same words needs neither front ends nor a canonical form. Both of these are
// pure functions, so an entry stays true; the plan itself may be gone. Forgets questions that were
// not asked for long. Thread-safe.
class QuestionMemo {
 public:
  // Remembers at least the last `entries` questions, and at most twice as many.
  explicit QuestionMemo(size_t entries) : entries_(entries) {}

  std::optional<std::string> Find(const QuestionDigest& question);
  void Remember(const QuestionDigest& question, std::string plan);

 private:
  using Names = absl::flat_hash_map<QuestionDigest, std::string>;

  void RememberLocked(const QuestionDigest& question, std::string plan)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t entries_;
  absl::Mutex mutex_;
  Names recent_ ABSL_GUARDED_BY(mutex_);
  Names older_ ABSL_GUARDED_BY(mutex_);  // forgotten when recent_ is full
};

}  // namespace remesh::server
