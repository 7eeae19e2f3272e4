// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "remesh/v1/plan.pb.h"
#include "server/cache/plan_cache.h"

namespace remesh::server {

// INVALID_ARGUMENT (field `view`) for an unknown view, and for FULL if `list`: a list of plans has
// no such view.
absl::Status CheckView(v1::PlanView view, bool list);

// A plan in pieces: the first holds everything except transfers and, where they are many, missing
// boxes; the next hold the rest of these, and in view FULL the last ones the transfers in the
// plan's order. Between two calls of Emit() it keeps the plan and its position,
// but no expanded transfers, so that many can wait for their readers: the next call expands the
// plan again from the window of that position (but see ReadAhead). A value with no lock.
class PlanPieces {
 public:
  static constexpr size_t kPieceBytes = size_t{1} << 20;

  // `cache` must outlive it.
  PlanPieces(PlanCache& cache, v1::GetPlanRequest request, size_t piece_bytes = kPieceBytes)
      : cache_(cache), request_(std::move(request)), piece_bytes_(piece_bytes) {}

  // Passes pieces to `emit` until it returns false; the next call continues after that piece.
  // Returns errors only before the first piece: those of PlanCache::Find() and CheckView().
  absl::Status Emit(absl::FunctionRef<bool(v1::Plan)> emit);

 private:
  // Returns whether all missing boxes are emitted.
  bool EmitMissing(absl::FunctionRef<bool(v1::Plan)> emit);
  void EmitTransfers(absl::FunctionRef<bool(v1::Plan)> emit);

  PlanCache& cache_;
  const v1::GetPlanRequest request_;
  const size_t piece_bytes_;
  std::optional<ListedPlan> listed_;  // set by the first Emit()
  size_t missing_ = 0;                // number of emitted missing boxes
  int32_t window_ = 0;                // of the last emitted transfer
  int64_t emitted_ = 0;               // number of emitted transfers of window_
};

}  // namespace remesh::server
