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

// INVALID_ARGUMENT (view) for one that is unknown; FULL is none of a list's.
absl::Status CheckView(v1::PlanView view, bool list);

// A plan in pieces: everything but its transfers, then, in a FULL view, these in the plan's order.
// Between pieces it keeps the plan and how far it has come, but nothing that is expanded: it begins
// again at the window where it was. So many may wait for their readers. A value with no lock.
class PlanPieces {
 public:
  static constexpr size_t kPieceBytes = size_t{1} << 20;

  // `cache` must outlive it.
  PlanPieces(PlanCache& cache, v1::GetPlanRequest request, size_t piece_bytes = kPieceBytes)
      : cache_(cache), request_(std::move(request)), piece_bytes_(piece_bytes) {}

  // Hands pieces to emit() until that says no; the next call goes on after that piece. Errors are
  // those of PlanCache::Find() and CheckView(), before the first piece.
  absl::Status Emit(absl::FunctionRef<bool(v1::Plan)> emit);

 private:
  void EmitTransfers(absl::FunctionRef<bool(v1::Plan)> emit);

  PlanCache& cache_;
  const v1::GetPlanRequest request_;
  const size_t piece_bytes_;
  std::optional<ListedPlan> listed_;  // once the first piece was emitted
  int32_t window_ = 0;                // of the last transfer that was emitted
  int64_t emitted_ = 0;               // transfers of that window
};

}  // namespace remesh::server
