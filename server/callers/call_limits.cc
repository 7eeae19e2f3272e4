// SPDX-License-Identifier: Apache-2.0
#include "server/callers/call_limits.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server {

bool IsLimited(std::string_view method) {
  static constexpr std::array<std::string_view, 8> kLimited = {
      "CreatePlan",  "PrecomputePlans", "SuggestIntermediateSharding",
      "ImportPlan",  "ExplainPlan",     "RenderPlan",
      "CreateState", "StartExecution"};
  return std::find(kLimited.begin(), kLimited.end(), method) != kLimited.end();
}

absl::Status CallLimits::Take(const std::string& caller) {
  const Timestamp now = clock_.Now();
  absl::MutexLock lock(&mutex_);
  if (options_.per_second <= 0) return absl::OkStatus();
  Bucket& bucket = Find(caller, now);
  const std::chrono::duration<double> passed = now - bucket.filled;
  bucket.tokens = std::min(options_.burst, bucket.tokens + passed.count() * options_.per_second);
  bucket.filled = now;
  if (bucket.tokens >= 1) {
    bucket.tokens -= 1;
    return absl::OkStatus();
  }
  const std::string wait = absl::StrCat((1 - bucket.tokens) / options_.per_second);
  const std::string rate = absl::StrCat(options_.per_second);
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat(caller, " calls more often than ", rate, " times a second: wait ", wait, " s"),
      {.reason = "RATE_LIMITED",
       .metadata = {
           {"caller", caller}, {"calls_per_second", rate}, {"retry_after_seconds", wait}}});
}

void CallLimits::SetRate(double per_second, double burst) {
  absl::MutexLock lock(&mutex_);
  options_.per_second = per_second;
  options_.burst = burst;
}

CallLimits::Bucket& CallLimits::Find(const std::string& caller, Timestamp now) {
  const auto [found, added] = buckets_.try_emplace(caller);
  Bucket& bucket = found->second;
  if (!added) {
    order_.splice(order_.begin(), order_, bucket.order);
    return bucket;
  }
  order_.push_front(caller);
  bucket = {.tokens = options_.burst, .filled = now, .order = order_.begin()};
  if (buckets_.size() > options_.callers_max) {
    buckets_.erase(order_.back());
    order_.pop_back();
  }
  return buckets_.at(caller);
}

}  // namespace remesh::server
