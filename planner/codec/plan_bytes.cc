// SPDX-License-Identifier: Apache-2.0
#include "planner/codec/plan_bytes.h"

#include <xxhash.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/codec/corrupt_plan.h"
#include "planner/codec/plan_check.h"
#include "planner/codec/request_bytes.h"
#include "planner/plan/plan_rep.h"
#include "planner/values/box_fields.h"
#include "planner/values/byte_archive.h"

namespace remesh::planner {
namespace {

constexpr std::string_view kMagic = "remesh.p";
constexpr size_t kSumSize = sizeof(XXH128_canonical_t);

std::string SumOf(std::string_view bytes) {
  XXH128_canonical_t sum;
  XXH128_canonicalFromHash(&sum, XXH3_128bits(bytes.data(), bytes.size()));
  return std::string(reinterpret_cast<const char*>(sum.digest), kSumSize);
}

template <typename Archive, typename T>
void CertificateFields(Archive& a, T& certificate) {
  a.Number(certificate.kind);
  a.Steps(certificate.hosts);
  a.Steps(certificate.domains);
  a.Steps(certificate.devices);
  a.Number(certificate.bits);
  a.Number(certificate.capacity);
}

template <typename Archive, typename T>
void SummaryFields(Archive& a, T& s) {
  for (auto* number : {&s.total_bytes, &s.kept_bytes, &s.local_bytes, &s.crossing_bytes,
                       &s.relayed_bytes, &s.bottleneck_bytes, &s.max_peak_bytes, &s.messages}) {
    a.Number(*number);
  }
  for (auto* number : {&s.bottleneck_seconds, &s.lower_bound_seconds, &s.routing_bound_seconds,
                       &s.quality, &s.predicted_seconds, &s.schedule_seconds, &s.fabric_seconds,
                       &s.fabric_bound_seconds, &s.schedule_price}) {
    a.Number(*number);
  }
  a.Number(s.windows);
}

template <typename Archive, typename T>
void GeometryFields(Archive& a, T& geometry) {
  a.Each(geometry.classes, [&](auto& one) {
    a.Steps(one.arrays);
    a.Number(one.element_bits);
    a.Number(one.first_atom);
    a.Number(one.atom_count);
    a.Each(one.cuts, [&](auto& cuts) { a.Steps(cuts); });
    a.Each(one.boxes, [&](auto& box) { BoxFields(a, box); });
  });
}

template <typename Archive, typename T>
void MovesFields(Archive& a, T& rep) {
  a.Each(rep.moves, [&](auto& move) {
    a.Number(move.segment);
    a.Number(move.from_device);
    a.Number(move.to_device);
    a.Number(move.hop);
    a.Number(move.spaces);
    a.Number(move.whole);
  });
  a.Each(rep.stripes, [&](auto& stripe) {
    a.Number(stripe.move);
    a.Number(stripe.lo);
    a.Number(stripe.hi);
  });
  a.Steps(rep.round_begin);
  a.Number(rep.schedule.parts);
  a.Number(rep.schedule.rounds);
  a.Number(rep.schedule.hops);
  a.Number(rep.schedule.min_part_bits);
}

template <typename Archive, typename T>
void RepFields(Archive& a, T& rep, bool free_order) {
  if (free_order) a.Steps(rep.target_order);
  a.Number(rep.schedule.slack_bits);
  GeometryFields(a, rep.geometry);
  a.Each(rep.missing, [&](auto& missing) {
    a.Number(missing.array);
    BoxFields(a, missing.box);
    a.Number(missing.subgroup);
    a.Steps(missing.lost_devices);
  });
  a.Steps(rep.host_of);
  a.Steps(rep.atoms);
  a.Steps(rep.tape_begin);
  a.Steps(rep.segment_tape);
  a.Steps(rep.segment_hi);
  MovesFields(a, rep);
  SummaryFields(a, rep.figures.summary);
  CertificateFields(a, rep.figures.lower_bound);
  CertificateFields(a, rep.figures.routing_bound);
  CertificateFields(a, rep.figures.fabric_bound);
  a.Steps(rep.peak_bytes);
}

}  // namespace

std::string EncodePlan(const CanonicalRequest& request, const Plan& plan) {
  ByteWriter writer;
  writer.Number(kPlanBytesFormat);
  WriteRequest(request, writer);
  RepFields(writer, plan.rep(), request.request.options.free_target_order);
  std::string bytes = absl::StrCat(std::string(kMagic), std::move(writer).Take());
  bytes += SumOf(bytes);
  return bytes;
}

std::string DigestOfPlanBytes(std::string_view bytes) {
  REMESH_CHECK(bytes.size() > kSumSize);
  return std::string(bytes.substr(bytes.size() - kSumSize));
}

absl::StatusOr<AnsweredRequest> DecodePlan(std::string_view bytes, Budget& budget) {
  if (bytes.size() < kMagic.size() + kSumSize || !bytes.starts_with(kMagic)) {
    return CorruptPlan("they do not begin as one");
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kSumSize);
  if (SumOf(body) != bytes.substr(body.size())) return CorruptPlan("the checksum differs");
  ByteReader reader(body.substr(kMagic.size()), budget);
  int64_t format = 0;
  reader.Number(format);
  if (format != kPlanBytesFormat) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat("the plan's bytes have format ", format, ", this program reads ",
                                  kPlanBytesFormat),
                     {.reason = "PLAN_BYTES_FORMAT",
                      .metadata = {{"format", absl::StrCat(format)},
                                   {"supported", absl::StrCat(kPlanBytesFormat)}}});
  }
  CanonicalRequest request;
  const absl::Status read = ReadRequest(reader, request, budget);
  RETURN_IF_ERROR(budget.Check());
  RETURN_IF_ERROR(read);
  auto rep = std::make_shared<PlanRep>();
  RepFields(reader, *rep, request.request.options.free_target_order);
  RETURN_IF_ERROR(budget.Check());
  if (!reader.done()) return CorruptPlan("they end early or late, or hold a number out of range");
  RETURN_IF_ERROR(CheckRep(*rep, request.request));
  return AnsweredRequest{.request = std::move(request), .plan = Plan(std::move(rep))};
}

}  // namespace remesh::planner
