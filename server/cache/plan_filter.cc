// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_filter.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/values/names.h"

namespace remesh::server {
namespace {

absl::Status Check(const char* field, const v1::CountRange& range) {
  if (range.has_min() && range.min() < 0) {
    return InvalidField(absl::StrCat(field, ".min"), absl::StrCat(range.min()), "must be >= 0");
  }
  if (range.has_max() && range.max() < range.min()) {
    return InvalidField(absl::StrCat(field, ".max"), absl::StrCat(range.max()),
                        "must be >= min and >= 0");
  }
  return absl::OkStatus();
}

auto Order(const google::protobuf::Timestamp& time) {
  return std::make_tuple(time.seconds(), time.nanos());
}

absl::Status Check(const char* field, const v1::TimeRange& range) {
  for (const auto& [name, time] :
       {std::pair{".after", &range.after()}, std::pair{".before", &range.before()}}) {
    if (time->nanos() >= 0 && time->nanos() < 1'000'000'000) continue;
    return InvalidField(absl::StrCat(field, name, ".nanos"), absl::StrCat(time->nanos()),
                        "must be 0 to 999999999");
  }
  if (range.has_after() && range.has_before() && Order(range.before()) <= Order(range.after())) {
    return InvalidField(absl::StrCat(field, ".before"), range.before().ShortDebugString(),
                        "must be later than after");
  }
  return absl::OkStatus();
}

bool Within(const v1::CountRange& range, int64_t count) {
  return (!range.has_min() || count >= range.min()) && (!range.has_max() || count <= range.max());
}

bool Within(const v1::TimeRange& range, const google::protobuf::Timestamp& time) {
  return (!range.has_after() || Order(time) >= Order(range.after())) &&
         (!range.has_before() || Order(time) < Order(range.before()));
}

bool HasState(const v1::Plan& plan, const std::string& state) {
  return std::find(plan.states().begin(), plan.states().end(), state) != plan.states().end();
}

}  // namespace

absl::Status ValidateFilter(const v1::PlanFilter& filter) {
  if (!filter.state().empty()) RETURN_IF_ERROR(ParseStateName("state", filter.state()).status());
  RETURN_IF_ERROR(Check("source_devices", filter.source_devices()));
  RETURN_IF_ERROR(Check("target_devices", filter.target_devices()));
  RETURN_IF_ERROR(Check("source_hosts", filter.source_hosts()));
  RETURN_IF_ERROR(Check("target_hosts", filter.target_hosts()));
  RETURN_IF_ERROR(Check("hits", filter.hits()));
  RETURN_IF_ERROR(Check("created", filter.created()));
  RETURN_IF_ERROR(Check("used", filter.used()));
  if (!v1::CacheTier_IsValid(filter.tier())) {
    return InvalidField("tier", absl::StrCat(filter.tier()), "must be MEMORY or DISK");
  }
  return absl::OkStatus();
}

bool Matches(const v1::PlanFilter& filter, const v1::Plan& plan) {
  return (filter.state().empty() || HasState(plan, filter.state())) &&
         Within(filter.source_devices(), plan.source_devices()) &&
         Within(filter.target_devices(), plan.target_devices()) &&
         Within(filter.source_hosts(), plan.source_hosts()) &&
         Within(filter.target_hosts(), plan.target_hosts()) &&
         Within(filter.created(), plan.create_time()) &&
         Within(filter.used(), plan.last_use_time()) && Within(filter.hits(), plan.hits()) &&
         (!filter.has_pinned() || filter.pinned() == plan.pinned()) &&
         (filter.tier() == v1::CACHE_TIER_UNSPECIFIED || filter.tier() == plan.tier()) &&
         plan.fingerprint().compare(0, filter.fingerprint_prefix().size(),
                                    filter.fingerprint_prefix()) == 0;
}

}  // namespace remesh::server
