// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <chrono>

#include "absl/time/time.h"

namespace remesh {

inline void SetTime(absl::Time time, google::protobuf::Timestamp& message) {
  const int64_t nanos = absl::ToUnixNanos(time);
  message.set_seconds(nanos / 1'000'000'000);
  message.set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
}

inline absl::Time ToTime(const google::protobuf::Timestamp& message) {
  return absl::FromUnixSeconds(message.seconds()) + absl::Nanoseconds(message.nanos());
}

inline void SetDuration(std::chrono::nanoseconds duration, google::protobuf::Duration& message) {
  message.set_seconds(duration.count() / 1'000'000'000);
  message.set_nanos(static_cast<int32_t>(duration.count() % 1'000'000'000));
}

inline std::chrono::nanoseconds ToNanos(const google::protobuf::Duration& message) {
  return std::chrono::seconds(message.seconds()) + std::chrono::nanoseconds(message.nanos());
}

}  // namespace remesh
