// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/nccl/nccl_link.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

// Keeps communicators between attempts: one set at most, as each takes memory of the devices. A set
// ends when it is dropped, or has been idle for too long. The data thread calls everything.
class NcclShelf {
 public:
  // idle: how long communicators stay. abort_timeout, on_stuck: see NcclOptions and NcclSetup.
  NcclShelf(std::chrono::milliseconds idle, std::chrono::milliseconds abort_timeout,
            std::function<void()> on_stuck);
  // REQUIRES: empty().
  ~NcclShelf();

  // REQUIRES: `link` is idle.
  void Put(const Lasting& lasting, std::unique_ptr<NcclLink> link);
  // Null if no set of that name is kept, or it connects others (Lasting::among).
  std::unique_ptr<NcclLink> Take(const Lasting& lasting);
  // The set no longer grows too old: an attempt that reserves its memory will take it.
  void Await(const std::string& name);
  void Drop(const std::string& name);
  void DropAll();

  // Whether some communicators were dropped and have not ended.
  bool dropping() const;
  bool empty() const { return kept_.empty(); }

  // may_end: nothing works on the devices, so communicators may be freed. Returns whether anything
  // happened.
  bool Progress(bool may_end);

 private:
  struct Kept {
    Lasting lasting;
    std::unique_ptr<NcclLink> link;
    std::chrono::steady_clock::time_point until;
    bool awaited = false;
    bool dropped = false;
  };

  const std::chrono::milliseconds idle_;
  const std::chrono::milliseconds abort_timeout_;
  const std::function<void()> on_stuck_;
  bool stuck_ = false;
  std::vector<Kept> kept_;
};

}  // namespace remesh::worker
