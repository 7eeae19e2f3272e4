// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "worker/nccl/nccl_comms.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

// The operations of one window, and their callbacks.
struct NcclWindow {
  int32_t window = 0;
  bool first = false;                    // of the attempt
  std::chrono::milliseconds timeout{0};  // from the end of the one before, and again to its own
  std::vector<NcclEntry> entries;
  std::vector<PeerGroup::Done> done;  // of entries
};

// Gathers operations into windows, and gives the windows out whole and in order: NCCL starts a
// window at once, and hosts that start their windows in different orders hang.
class NcclWindows {
 public:
  // How many operations each window will have, by window. Windows with none are passed over.
  void Expect(std::vector<int32_t> operations);
  // REQUIRES: the window is not complete, and has no other operation of that direction between the
  // two ranks.
  void Add(uint32_t window, const NcclEntry& entry, PeerGroup::Done done);
  // The next window, if all its operations are there.
  std::optional<NcclWindow> TakeNext();
  // Whether no window is left.
  bool all_taken() const;
  // The operations of windows that were never complete, or never taken.
  std::vector<PeerGroup::Done> TakeRest();

 private:
  struct Gathered {
    size_t expected = 0;
    NcclWindow window;
  };
  std::vector<Gathered> windows_;
  size_t next_ = 0;
  bool any_taken_ = false;
};

}  // namespace remesh::worker
