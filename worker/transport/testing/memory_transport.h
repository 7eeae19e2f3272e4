// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "worker/transport/transport.h"

namespace remesh::worker {

// A network inside one process, for tests and simulations. Its transports reach each other by name.
// Nothing happens outside the transports' own calls, so that one thread driving them all gets the
// same run every time. Thread-safe, and so are its transports towards each other: each may have a
// thread of its own. The network lives until its last transport is gone.
class MemoryFabric {
 public:
  MemoryFabric();

  // REQUIRES: no living transport has this address.
  std::unique_ptr<Transport> NewTransport(std::string address);

  // Simulates the death of a process as others see it: their operations with it end UNAVAILABLE.
  // The transport itself stops moving anything, and its operations end only by Abort(). Its address
  // is free again.
  void Kill(std::string_view address);

  // Delays messages that are sent to `address` from now on by this many of its Progress() calls.
  void SetDelay(std::string_view address, int progress_calls);

  // Messages dropped because their sender's token is not in the receiving group's table.
  int64_t refused() const;

  class Hub;

 private:
  std::shared_ptr<Hub> hub_;
};

}  // namespace remesh::worker
