// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/planning/kept_bytes.h"

namespace remesh::server {

// Pieces of an answer that is costly to continue, because what was emitted must be made again:
// when the reader is slow, makes more pieces in the same go, up to kBytes, and keeps them for it.
// Where `kept` has no room it keeps none, and the answer is made again for each piece. `Piece` is a
// protobuf message. A value with no lock.
template <typename Piece>
class ReadAhead {
 public:
  static constexpr size_t kBytes = size_t{16} << 20;

  // Passes pieces to `emit` until it returns false; the next call continues after that piece.
  using Emit = absl::FunctionRef<bool(Piece)>;
  using Make = absl::AnyInvocable<absl::Status(Emit emit)>;

  // `kept` must outlive it. No more pieces are made once `gone` says that they are no longer read.
  ReadAhead(
      KeptBytes& kept, std::string caller, Make make,
      absl::AnyInvocable<bool()> gone = [] { return false; })
      : kept_(&kept), caller_(std::move(caller)), make_(std::move(make)), gone_(std::move(gone)) {}

  // As Make.
  absl::Status operator()(Emit emit) {
    if (!EmitAhead(emit)) return absl::OkStatus();
    if (end_) return *end_;
    bool wanted = true, stopped = false;
    const absl::Status status = make_([&](Piece piece) {
      if (wanted) {
        wanted = emit(std::move(piece));
      } else {
        Keep(std::move(piece));
      }
      stopped = !wanted && (gone_() || !HasRoom());
      return !stopped;
    });
    if (!stopped) end_ = status;
    if (ahead_.empty()) place_.reset();
    return wanted ? status : absl::OkStatus();
  }

 private:
  // False: `emit` returned false.
  bool EmitAhead(Emit emit) {
    bool wanted = true;
    while (wanted && !ahead_.empty()) {
      Piece piece = std::move(ahead_.front());
      ahead_.pop_front();
      wanted = emit(std::move(piece));
    }
    if (ahead_.empty()) place_.reset();
    return wanted;
  }

  void Keep(Piece piece) {
    last_bytes_ = piece.SpaceUsedLong();
    bytes_ += last_bytes_;
    ahead_.push_back(std::move(piece));
  }

  // Whether one more piece may be kept, if it is as large as the one before.
  bool HasRoom() {
    if (!place_) {
      absl::StatusOr<KeptBytes::Place> place = kept_->Keep(caller_, kBytes);
      if (!place.ok()) return false;
      place_ = *std::move(place);
      bytes_ = last_bytes_ = 0;
    }
    return bytes_ + last_bytes_ <= kBytes;
  }

  KeptBytes* kept_;
  std::string caller_;
  Make make_;
  absl::AnyInvocable<bool()> gone_;
  std::deque<Piece> ahead_;
  std::optional<KeptBytes::Place> place_;  // for `ahead_`
  size_t bytes_ = 0;                       // of the pieces kept since `place_` is there
  size_t last_bytes_ = 0;
  std::optional<absl::Status> end_;  // all pieces are made
};

}  // namespace remesh::server
