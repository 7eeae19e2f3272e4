// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace remesh::server {

// A limit on the bytes that answers hold in memory while they wait for their readers: a total for
// all callers, of which one caller may have a quarter. Thread-safe.
class KeptBytes {
 public:
  explicit KeptBytes(size_t max_bytes);

  // Bytes that are kept until this is destroyed. Must not outlive the KeptBytes.
  class Place {
   public:
    Place() = default;
    Place(KeptBytes& kept, std::string caller, size_t bytes)
        : kept_(&kept), caller_(std::move(caller)), bytes_(bytes) {}
    Place(Place&& other) noexcept { *this = std::move(other); }
    Place& operator=(Place&& other) noexcept {
      std::swap(kept_, other.kept_);
      std::swap(caller_, other.caller_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Place() {
      if (kept_ != nullptr) kept_->Drop(caller_, bytes_);
    }

   private:
    KeptBytes* kept_ = nullptr;
    std::string caller_;
    size_t bytes_ = 0;
  };

  // Counts so many more bytes. RESOURCE_EXHAUSTED (UNREAD_ANSWERS), with the time after which to
  // try again, if the caller or all callers would have too many.
  absl::StatusOr<Place> Keep(const std::string& caller, size_t bytes);

 private:
  void Drop(const std::string& caller, size_t bytes);

  const size_t max_bytes_;
  const size_t max_of_caller_;
  absl::Mutex mutex_;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, size_t> of_callers_ ABSL_GUARDED_BY(mutex_);  // no number is 0
};

}  // namespace remesh::server
