// SPDX-License-Identifier: Apache-2.0
#include "service/log/log_budget.h"

#include <algorithm>
#include <utility>

namespace remesh::service {
namespace {

constexpr size_t kMessagesMax = 1000;

}  // namespace

void LogBudget::Fill(Bucket& bucket, Rate rate, Timestamp now) {
  const std::chrono::duration<double> since = now - bucket.filled;
  bucket.tokens = std::min<double>(rate.burst, bucket.tokens + since.count() * rate.per_second);
  bucket.filled = now;
}

LogBudget::Bucket& LogBudget::Of(std::string_view message, Timestamp now) {
  if (by_message_.size() >= kMessagesMax) {  // callers put values into messages
    for (const auto& [forgotten, bucket] : by_message_) dropped_in_all_ += bucket.dropped;
    by_message_.clear();
  }
  auto [found, added] = by_message_.try_emplace(std::string(message),
                                                Bucket{.tokens = 1.0 * each_.burst, .filled = now});
  Fill(found->second, each_, now);
  return found->second;
}

std::optional<int64_t> LogBudget::Take(std::string_view message, Timestamp now) {
  Bucket& bucket = Of(message, now);
  Fill(all_, rate_of_all_, now);
  if (bucket.tokens < 1) {
    ++bucket.dropped;
    return std::nullopt;
  }
  if (all_.tokens < 1) {
    ++dropped_in_all_;
    return std::nullopt;
  }
  --bucket.tokens;
  --all_.tokens;
  return std::exchange(bucket.dropped, 0);
}

std::vector<std::pair<std::string, int64_t>> LogBudget::TakeDropped() {
  std::vector<std::pair<std::string, int64_t>> dropped;
  for (auto& [message, bucket] : by_message_) {
    if (bucket.dropped > 0) dropped.emplace_back(message, std::exchange(bucket.dropped, 0));
  }
  return dropped;
}

}  // namespace remesh::service
