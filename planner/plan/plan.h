// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "planner/atoms/missing_box.h"
#include "planner/plan/transfer.h"
#include "planner/values/budget.h"
#include "planner/values/plan_summary.h"

namespace remesh::planner {

struct PlanRep;  // plan_rep.h: for the planner's own files

// The answer to a CanonicalRequest, in canonical ids: immutable, built by MakePlan() only,
// thread-safe to read. Transfers are kept in a compact form (classes and segments) and expanded on
// demand.
class Plan {
 public:
  explicit Plan(std::shared_ptr<const PlanRep> rep) : rep_(std::move(rep)) {}

  const PlanSummary& summary() const;
  const std::vector<MissingBox>& missing() const;
  // For each device, the device that takes its place in the target lists of a request whose order
  // is free: see WithTargetOrder(). Empty when every device keeps its place.
  const std::vector<int64_t>& target_order() const;
  // The predicted peak of each canonical device, in bytes.
  const std::vector<int64_t>& peak_bytes() const;
  // The proofs of summary().lower_bound_seconds, and of routing_bound_seconds where that is more.
  const Certificate& lower_bound_certificate() const;
  const Certificate& routing_bound_certificate() const;
  const Certificate& fabric_bound_certificate() const;
  // An estimate of the memory that this object holds, for the accounts of a cache.
  int64_t memory_bytes() const;

  // Visits every transfer, ordered by window and such that a sender always holds what it sends.
  // Includes moves inside a host and kept boxes (from_device == to_device, kSource -> kTarget).
  void ForEachTransfer(absl::FunctionRef<void(const Transfer&)> visit) const;
  // As above, from `first_window` on, until `visit` returns false; `visit` may still be called for
  // a few more transfers after that. Costs O(moves) before the first transfer.
  void ForEachTransferFrom(int32_t first_window,
                           absl::FunctionRef<bool(const Transfer&)> visit) const;
  // Visits the same bits by window and pair of different devices; a pair may come more than once in
  // a window. Costs O(moves x parts), however many arrays and boxes there are. Ends early when the
  // budget is spent.
  void ForEachFlow(absl::FunctionRef<void(const Flow&)> visit,
                   Budget& budget = Budget::Unlimited()) const;

  std::string DebugString() const;
  friend bool operator==(const Plan& a, const Plan& b);

  const PlanRep& rep() const { return *rep_; }

 private:
  std::shared_ptr<const PlanRep> rep_;
};

}  // namespace remesh::planner
