// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/synchronization/notification.h"
#include "base/strand.h"

namespace remesh::fuzz {

// Runs `f` on the strand and waits until it has run.
template <typename F>
void RunOn(Strand& strand, F f) {
  absl::Notification done;
  strand.Post([&] {
    f();
    done.Notify();
  });
  done.WaitForNotification();
}

}  // namespace remesh::fuzz
