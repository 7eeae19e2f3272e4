// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/byte_shares.h"

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
      if (kept_ != nullptr) kept_->shares_.Give(caller_, bytes_);
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
  ByteShares shares_;
};

}  // namespace remesh::server
