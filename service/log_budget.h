// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"

namespace remesh::service {

// How many lines a log takes, so that nobody who makes us write them fills the disk: of each
// message a burst, then a few a second; and so of all together. Not thread-safe.
class LogBudget {
 public:
  static constexpr int kBurst = 100, kPerSecond = 5;
  static constexpr int kBurstOfAll = 1000, kPerSecondOfAll = 100;

  // How many lines with this message were dropped since its last one; nullopt: drop this one too.
  std::optional<int64_t> Take(std::string_view message, Timestamp now);

  // How many lines were dropped since the last call that no later line of their message will tell
  // of: all messages together came too often.
  int64_t TakeDroppedInAll() { return std::exchange(dropped_in_all_, 0); }

 private:
  struct Bucket {
    double tokens;
    Timestamp filled{0};
    int64_t dropped = 0;
  };
  static void Fill(Bucket& bucket, int burst, int per_second, Timestamp now);
  Bucket& Of(std::string_view message, Timestamp now);

  Bucket all_{.tokens = kBurstOfAll};
  int64_t dropped_in_all_ = 0;
  absl::flat_hash_map<std::string, Bucket> by_message_;
};

}  // namespace remesh::service
