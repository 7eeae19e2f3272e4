// SPDX-License-Identifier: Apache-2.0
#include "server/planning/plan_export.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "planner/codec/plan_bytes.h"
#include "planner/reprice.h"
#include "proto/convert/exported_plan.h"
#include "proto/convert/plan_counts.h"
#include "service/process/version.h"

namespace remesh::server {
namespace {

constexpr double kComputeSecondsMax = 3600;

// Limits the planning time that a file claims, which must not spoil statistics.
double SaneSeconds(double seconds) {
  return std::isfinite(seconds) ? std::clamp(seconds, 0.0, kComputeSecondsMax) : 0;
}

}  // namespace

absl::StatusOr<std::string> ExportPlan(PlanCache& cache, const std::string& name) {
  ASSIGN_OR_RETURN(const ListedPlan listed, cache.Find(name));
  const CachedPlan& cached = *listed.plan->cached;
  v1::ExportedPlan file;
  file.set_name(name);
  file.set_spec(*listed.plan->spec);
  file.set_plan(planner::EncodePlan(cached.request, cached.plan));
  file.set_compute_seconds(cached.compute_seconds);
  *file.mutable_create_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      absl::ToUnixNanos(listed.facts.created));
  file.set_version(std::string(service::kVersion));
  return proto::EncodeExport(file);
}

absl::StatusOr<v1::Plan> ImportPlan(PlanCache& cache, const v1::ImportPlanRequest& request,
                                    const planner::Topology* workers, planner::Budget& budget) {
  const v1::PlanSpec* const spec = request.has_spec() ? &request.spec() : nullptr;
  ASSIGN_OR_RETURN(proto::ImportedPlan imported,
                   proto::ReadExport(request.data(), spec, workers, budget));
  const planner::CanonicalRequest& canonical = imported.canonicalized.canonical;
  ASSIGN_OR_RETURN(planner::Plan plan, planner::Repriced(canonical, imported.plan, budget));
  // Not the file's: the plan has other figures by now.
  std::string digest = planner::DigestOfPlanBytes(planner::EncodePlan(canonical, plan));
  CachedPlan cached{.request = canonical,
                    .plan = std::move(plan),
                    .compute_seconds = SaneSeconds(imported.file.compute_seconds()),
                    .digest = std::move(digest)};
  PlanCache::Question question;
  question.canonicalized = std::move(imported.canonicalized);
  question.spec = std::make_shared<const std::string>(imported.spec.SerializeAsString());
  question.hosts_assumed = proto::HostsAssumed(imported.spec.topology());
  question.access = Access::kAhead;
  return ToProto(cache.Import(question, std::move(cached)));
}

}  // namespace remesh::server
