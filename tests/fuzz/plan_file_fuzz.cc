// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "planner/codec/plan_bytes.h"
#include "planner/make_plan.h"
#include "planner/plan/host_program.h"
#include "planner/reprice.h"
#include "planner/validate.h"
#include "proto/convert/exported_plan.h"
#include "tests/fuzz/inputs.pb.h"
#include "tests/fuzz/planned.h"
#include "tests/testing/resealed.h"

namespace remesh::fuzz {
namespace {

// A sound plan of `spec`; "" without one.
std::string PlanBytes(const v1::PlanSpec& spec) {
  const auto request = proto::ToReshardRequest(spec, nullptr);
  if (!request.ok() || !IsSmall(*request)) return "";
  const auto canonicalized = planner::Canonicalize(*request);
  if (!canonicalized.ok()) return "";
  const auto plan = planner::MakePlan(canonicalized->canonical);
  return plan.ok() ? planner::EncodePlan(canonicalized->canonical, *plan) : "";
}

std::string Damaged(std::string bytes, const PlanFileInput& input) {
  const size_t kHead = 8 + 1, kSum = 16;  // the word and the format stay
  for (const PlanFileInput::Edit& edit : input.edits()) {
    const size_t size = bytes.size() - kSum;
    const size_t at = std::max<size_t>(kHead, edit.at() % size);
    if (at > size || bytes.size() > kInputBytesMax) break;
    bytes.replace(at, std::min<size_t>(edit.drop(), size - at), edit.put());
  }
  return testing::Resealed(std::move(bytes));
}

// A replay takes at worst the square of its transfers.
planner::Budget Looks(int most) {
  return planner::Budget([most, looks = 0]() mutable {
    return ++looks <= most ? absl::OkStatus() : absl::CancelledError("it takes too long");
  });
}

void Use(const planner::CanonicalRequest& request, const planner::Plan& plan) {
  constexpr int kLooksMax = 100;
  plan.memory_bytes();
  if (!IsShort(plan)) return;
  plan.DebugString();
  plan.ForEachTransfer([](const planner::Transfer&) {});
  plan.ForEachFlow([](const planner::Flow&) {});
  for (size_t h = 0; h < request.request.topology.hosts.size() && h < 4; ++h)
    planner::ForEachTransferOfHost(plan, static_cast<int32_t>(h), [](const planner::Transfer&) {});
  planner::Budget validating = Looks(kLooksMax), repricing = Looks(kLooksMax);
  (void)planner::ValidatePlan(plan, request, validating);
  if (!IsSmall(request.request)) return;
  const auto repriced = planner::Repriced(request, plan, repricing);
  if (absl::IsCancelled(repriced.status())) return;
  if (!repriced.ok()) return CheckRefusal(repriced.status());
  REMESH_CHECK(planner::ValidatePlan(*repriced, request).ok());
}

}  // namespace
}  // namespace remesh::fuzz

REMESH_FUZZ_PROTO(remesh::fuzz::PlanFileInput, input) {
  using namespace remesh;
  static v1::PlanSpec last;
  static std::string sound;
  if (sound.empty() || input.spec().SerializeAsString() != last.SerializeAsString()) {
    last = input.spec();
    sound = fuzz::PlanBytes(last);
  }
  if (sound.empty()) return;
  const std::string bytes = fuzz::Damaged(sound, input);
  const auto decoded = planner::DecodePlan(bytes);
  if (decoded.ok()) {
    fuzz::Use(decoded->request, decoded->plan);
    const auto again = planner::DecodePlan(planner::EncodePlan(decoded->request, decoded->plan));
    REMESH_CHECK(again.ok() && again->plan == decoded->plan);
  } else {
    fuzz::CheckRefusal(decoded.status());
  }

  v1::ExportedPlan file;
  file.set_spec(last.SerializeAsString());
  file.set_plan(bytes);
  const auto exported = proto::EncodeExport(file);
  REMESH_CHECK(exported.ok());
  const auto read =
      proto::ReadExport(*exported, input.has_question() ? &input.question() : nullptr, nullptr);
  if (!read.ok()) return fuzz::CheckRefusal(read.status());
  fuzz::Use(read->canonicalized.canonical, read->plan);
}
