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

// How many lines a log takes, so that nobody who makes us write them fills the disk: of each
// message (or whoever causes lines) a burst, then a few a second; and so of all together. Not
// thread-safe.
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

  // How many lines with this message were dropped since its last one; nullopt: drop this one too.
  std::optional<int64_t> Take(std::string_view message, Timestamp now);

  // How many lines were dropped since the last call that no later line of their message will tell
  // of: all messages together came too often.
  int64_t TakeDroppedInAll() { return std::exchange(dropped_in_all_, 0); }

  // Of each message, how many lines were dropped since its last one: for who does not wait for the
  // next.
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
