// SPDX-License-Identifier: Apache-2.0
#include "client/watch/outage.h"

#include <thread>

namespace remesh::client {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRetryInterval = std::chrono::milliseconds(500);

}  // namespace

bool Outage::Bears(const grpc::Status& status) {
  if (!since_.has_value()) since_ = Clock::now();
  if (status.ok()) return true;
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         Clock::now() - *since_ < std::chrono::duration<double>(limit_seconds_);
}

void AwaitConnection(grpc::Channel& channel) {
  const Clock::time_point next_try = Clock::now() + kRetryInterval;
  channel.WaitForConnected(std::chrono::system_clock::now() + kRetryInterval);
  std::this_thread::sleep_until(next_try);
}

}  // namespace remesh::client
