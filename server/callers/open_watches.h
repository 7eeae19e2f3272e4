// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace remesh::server {

// Counts each caller's open streams of WatchState, WatchExecution and WatchPlans, and its calls of
// DeleteState that wait. A stream costs memory, and work at every change, so a caller may have
// kOfCallerMax open. Thread-safe.
class OpenWatches {
 public:
  static constexpr int kOfCallerMax = 1024;

  // One open stream of a caller, until this is destroyed. Must not outlive the OpenWatches.
  class Place {
   public:
    Place() = default;
    Place(OpenWatches& watches, std::string caller)
        : watches_(&watches), caller_(std::move(caller)) {}
    Place(Place&& other) noexcept { *this = std::move(other); }
    Place& operator=(Place&& other) noexcept {
      std::swap(watches_, other.watches_);
      std::swap(caller_, other.caller_);
      return *this;
    }
    ~Place() {
      if (watches_ != nullptr) watches_->End(caller_);
    }

    const std::string& caller() const { return caller_; }

   private:
    OpenWatches* watches_ = nullptr;
    std::string caller_;
  };

  // Counts one more stream. RESOURCE_EXHAUSTED (TOO_MANY_WATCHES) if the caller has kOfCallerMax.
  absl::StatusOr<Place> Begin(const std::string& caller);

 private:
  void End(const std::string& caller);

  absl::Mutex mutex_;
  std::map<std::string, int> counts_ ABSL_GUARDED_BY(mutex_);  // by caller; no count is 0
};

}  // namespace remesh::server
