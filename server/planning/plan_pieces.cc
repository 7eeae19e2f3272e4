// SPDX-License-Identifier: Apache-2.0
#include "server/planning/plan_pieces.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/convert/plan_proto.h"

namespace remesh::server {

absl::Status CheckView(v1::PlanView view, bool list) {
  if (v1::PlanView_IsValid(view) && !(list && view == v1::FULL)) return absl::OkStatus();
  return InvalidField("view", absl::StrCat(view),
                      list ? "must be BASIC or SUMMARY" : "must be BASIC, SUMMARY or FULL");
}

absl::Status PlanPieces::Emit(absl::FunctionRef<bool(v1::Plan)> emit) {
  if (!listed_) {
    RETURN_IF_ERROR(CheckView(request_.view(), /*list=*/false));
    ASSIGN_OR_RETURN(listed_, cache_.Find(request_.name()));
    v1::Plan first = ToProto(*listed_, request_.view());
    missing_ = static_cast<size_t>(first.missing_size());
    if (!emit(std::move(first))) return absl::OkStatus();
  }
  if (request_.view() == v1::BASIC || !EmitMissing(emit)) return absl::OkStatus();
  if (request_.view() == v1::FULL) EmitTransfers(emit);
  return absl::OkStatus();
}

bool PlanPieces::EmitMissing(absl::FunctionRef<bool(v1::Plan)> emit) {
  const BoundPlan& plan = *listed_->plan;
  bool wanted = true;
  while (wanted && missing_ < plan.cached->plan.missing().size()) {
    v1::Plan piece;
    missing_ = proto::AddMissing(plan.cached->plan, plan.binding, missing_, piece_bytes_, piece);
    wanted = emit(std::move(piece));
  }
  return wanted;
}

void PlanPieces::EmitTransfers(absl::FunctionRef<bool(v1::Plan)> emit) {
  const BoundPlan& plan = *listed_->plan;
  v1::Plan piece;
  size_t bytes = 0;
  bool wanted = true;
  int32_t window = window_;
  int64_t of_window = 0;  // transfers of `window` visited so far
  const int64_t begin = emitted_;
  const auto flush = [&] {
    window_ = window;
    emitted_ = of_window;
    wanted = emit(std::exchange(piece, {}));
    bytes = 0;
  };
  const auto visit = [&, first = window_](const v1::Transfer& transfer) {
    if (std::exchange(window, transfer.window()) != transfer.window()) of_window = 0;
    if (++of_window <= begin && window == first) return true;
    *piece.add_transfers() = transfer;
    bytes += transfer.ByteSizeLong() + 4;
    if (bytes >= piece_bytes_) flush();
    return wanted;
  };
  proto::ForEachTransferProtoFrom(window_, plan.cached->plan, plan.cached->request, plan.binding,
                                  visit);
  if (wanted && !piece.transfers().empty()) flush();
}

}  // namespace remesh::server
