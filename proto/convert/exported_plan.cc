// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/exported_plan.h"

#include <xxhash.h>
#include <zstd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/codec/plan_bytes.h"
#include "proto/convert/plan_proto.h"
#include "proto/convert/plan_spec.h"

namespace remesh::proto {
namespace {

constexpr std::string_view kMagic = "remesh.x";
constexpr size_t kHeadSize = kMagic.size() + 4 + 8;
constexpr size_t kSumSize = sizeof(XXH128_canonical_t);
constexpr int kLevel = 6;

absl::Status Invalid(std::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   absl::StrCat("data is not an exported plan: ", std::string(why)),
                   {.reason = "PLAN_FILE_INVALID",
                    .metadata = {{"field", "data"}, {"error", std::string(why)}}});
}

absl::Status Invalid(std::string_view what, const absl::Status& status) {
  return Invalid(absl::StrCat(std::string(what), status.message()));
}

std::string SumOf(std::string_view bytes) {
  XXH128_canonical_t sum;
  XXH128_canonicalFromHash(&sum, XXH3_128bits(bytes.data(), bytes.size()));
  return std::string(reinterpret_cast<const char*>(sum.digest), kSumSize);
}

void AppendNumber(uint64_t number, int bytes, std::string& out) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(number >> (8 * i)));
}

uint64_t NumberAt(std::string_view bytes, size_t at, int count) {
  uint64_t number = 0;
  for (int i = 0; i < count; ++i) {
    number |= uint64_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  }
  return number;
}

absl::Status TooLarge(size_t bytes, size_t most) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("the plan takes ", bytes, " bytes, more than ", most, " in a file"),
      {.reason = "PLAN_TOO_LARGE",
       .metadata = {{"bytes", absl::StrCat(bytes)}, {"max_bytes", absl::StrCat(most)}}});
}

}  // namespace

absl::StatusOr<std::string> EncodeExport(const v1::ExportedPlan& plan) {
  const size_t size = plan.ByteSizeLong();
  if (size > kExportUnpackedMax) return TooLarge(size, kExportUnpackedMax);
  if (plan.spec().size() > kExportSpecMax) return TooLarge(plan.spec().size(), kExportSpecMax);
  const std::string content = plan.SerializeAsString();
  std::string packed(ZSTD_compressBound(size), '\0');
  const size_t packed_size =
      ZSTD_compress(packed.data(), packed.size(), content.data(), content.size(), kLevel);
  if (ZSTD_isError(packed_size)) return absl::ResourceExhaustedError("no memory to compress");
  packed.resize(packed_size);
  std::string bytes(kMagic);
  AppendNumber(kExportFormat, 4, bytes);
  AppendNumber(size, 8, bytes);
  bytes += packed;
  bytes += SumOf(bytes);
  if (bytes.size() > kExportBytesMax) return TooLarge(bytes.size(), kExportBytesMax);
  return bytes;
}

absl::StatusOr<v1::ExportedPlan> DecodeExport(std::string_view bytes) {
  if (bytes.size() > kExportBytesMax) return Invalid("it is too long");
  if (bytes.size() < kHeadSize + kSumSize || !bytes.starts_with(kMagic)) {
    return Invalid("give a file that remeshctl plans export wrote");
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kSumSize);
  if (SumOf(body) != bytes.substr(body.size())) return Invalid("its digest differs");
  const uint64_t format = NumberAt(bytes, kMagic.size(), 4);
  if (format != kExportFormat) {
    return Invalid(absl::StrCat("it has format ", format, ", this program reads ", kExportFormat));
  }
  const uint64_t size = NumberAt(bytes, kMagic.size() + 4, 8);
  const std::string_view packed = body.substr(kHeadSize);
  if (size > kExportUnpackedMax || ZSTD_getFrameContentSize(packed.data(), packed.size()) != size) {
    return Invalid("its size is not what it says");
  }
  std::string content(size, '\0');
  const size_t got = ZSTD_decompress(content.data(), size, packed.data(), packed.size());
  if (ZSTD_isError(got) || got != size) return Invalid("it cannot be decompressed");
  v1::ExportedPlan plan;
  if (!plan.ParseFromString(content)) return Invalid("its content cannot be read");
  if (plan.spec().size() > kExportSpecMax) return Invalid("its question is too long");
  return plan;
}

absl::StatusOr<ImportedPlan> ReadExport(std::string_view bytes, const v1::PlanSpec* spec,
                                        const planner::Topology* workers, planner::Budget& budget) {
  ASSIGN_OR_RETURN(v1::ExportedPlan file, DecodeExport(bytes));
  RETURN_IF_ERROR(budget.Check());
  v1::PlanSpec question;
  if (spec != nullptr) {
    question = *spec;
  } else if (!question.ParseFromString(file.spec())) {
    return Invalid("its question cannot be read");
  }
  RETURN_IF_ERROR(budget.Check());
  const absl::StatusOr<planner::ReshardRequest> request =
      ToReshardRequest(question, spec != nullptr ? workers : nullptr, budget);
  RETURN_IF_ERROR(budget.Check());
  if (spec != nullptr) RETURN_IF_ERROR(AtField("spec", request.status()));
  if (!request.ok()) return Invalid("its question: ", request.status());
  if (question.topology().hosts().empty()) {
    *question.mutable_topology() = ToProto(request->topology);
  }
  absl::StatusOr<planner::CanonicalizedRequest> canonicalized =
      planner::Canonicalize(*request, budget);
  RETURN_IF_ERROR(budget.Check());
  if (!canonicalized.ok()) return Invalid("its question: ", canonicalized.status());
  absl::StatusOr<planner::AnsweredRequest> answered = planner::DecodePlan(file.plan(), budget);
  RETURN_IF_ERROR(budget.Check());
  if (!answered.ok()) return Invalid("its plan: ", answered.status());
  const std::string& fingerprint = canonicalized->canonical.fingerprint;
  if (answered->request.fingerprint != fingerprint) {
    return Invalid(absl::StrCat("its plan has fingerprint ", answered->request.fingerprint,
                                ", the question ", fingerprint));
  }
  return ImportedPlan{.file = std::move(file),
                      .spec = std::move(question),
                      .canonicalized = *std::move(canonicalized),
                      .plan = std::move(answered->plan)};
}

}  // namespace remesh::proto
