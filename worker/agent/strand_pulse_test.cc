// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/strand_pulse.h"

#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"

namespace remesh::worker {
namespace {

void Wait(Strand& strand) {
  absl::Notification done;
  strand.Post([&] { done.Notify(); });
  done.WaitForNotification();
}

TEST(StrandPulseTest, AStuckStrandIsNotVouchedFor) {
  Strand strand;
  StrandPulse pulse(&strand);
  EXPECT_EQ(pulse.Beat(), 1u);  // never 0, which means no progress count
  Wait(strand);
  EXPECT_EQ(pulse.Beat(), 2u);
  Wait(strand);
  EXPECT_EQ(pulse.Beat(), 3u);
  Wait(strand);
  absl::Notification go;
  strand.Post([&] { go.WaitForNotification(); });
  for (int i = 0; i < 10; ++i) EXPECT_EQ(pulse.Beat(), 4u);
  go.Notify();
  Wait(strand);
  EXPECT_EQ(pulse.Beat(), 5u);
}

}  // namespace
}  // namespace remesh::worker
