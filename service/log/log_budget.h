// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"

namespace remesh::service {

// Limits how many lines a log takes, so that no one who makes us write lines can fill the disk.
// Each message (or each caller that causes lines) has a burst, then a few lines a second; so have
// all together. Not thread-safe.
class LogBudget {
 public:
  struct Rate {
    int burst = 0;
    int per_second = 0;
  };
  static constexpr Rate kEach{.burst = 100, .per_second = 5};
  static constexpr Rate kAll{.burst = 1000, .per_second = 100};

  explicit LogBudget(Rate each = kEach, Rate all = kAll)
      : each_(each), rate_of_all_(all), all_{.tokens = 1.0 * all.burst} {}

  // Returns how many lines of this message were dropped since its last one; nullopt: drop this one
  // too.
  std::optional<int64_t> Take(std::string_view message, Timestamp now);

  // Returns how many lines were dropped since the last call that no later line of their message
  // will report: those beyond the rate of all messages together, and those of messages that were
  // forgotten.
  int64_t TakeDroppedInAll() { return std::exchange(dropped_in_all_, 0); }

  // Returns how many lines of each message were dropped since its last one, without waiting for the
  // message's next line.
  std::vector<std::pair<std::string, int64_t>> TakeDropped();

 private:
  struct Bucket {
    double tokens;
    Timestamp filled{0};
    int64_t dropped = 0;
  };
  static void Fill(Bucket& bucket, Rate rate, Timestamp now);
  Bucket& Of(std::string_view message, Timestamp now);

  const Rate each_;
  const Rate rate_of_all_;
  Bucket all_;
  int64_t dropped_in_all_ = 0;
  absl::flat_hash_map<std::string, Bucket> by_message_;
};

}  // namespace remesh::service
