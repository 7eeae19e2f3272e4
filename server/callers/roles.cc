// SPDX-License-Identifier: Apache-2.0
#include "server/callers/roles.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/resource_names.h"

namespace remesh::server {
namespace {

constexpr std::string_view kScheme = "spiffe://";
constexpr std::string_view kAnyHost = "any";

const std::vector<Role> kSocket;  // no one over the network
const std::vector<Role> kReaders = {Role::kViewer, Role::kJob, Role::kAdmin};
const std::vector<Role> kJobs = {Role::kJob, Role::kAdmin};
const std::vector<Role> kAdmins = {Role::kAdmin};
const std::vector<Role> kProgramReaders = {Role::kViewer, Role::kJob, Role::kWorker, Role::kAdmin};

// Whether SPIFFE allows such a segment in a path.
bool IsPathSegment(std::string_view text) {
  if (text.empty() || text == "." || text == "..") return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
  });
}

// The path's segments; none if one of them is not allowed.
std::vector<std::string_view> SegmentsOf(std::string_view path) {
  std::vector<std::string_view> segments;
  if (path.ends_with('/')) return segments;
  while (!path.empty()) segments.push_back(TakeSegment(path));
  const bool allowed = std::all_of(segments.begin(), segments.end(), IsPathSegment);
  return allowed ? segments : std::vector<std::string_view>();
}

absl::Status Denied(std::string_view id, const std::string& what, ErrorInfo info) {
  info.metadata["identity"] = std::string(id);
  return MakeError(absl::StatusCode::kPermissionDenied,
                   id.empty() ? absl::StrCat("a certificate without a SPIFFE id ", what)
                              : absl::StrCat(std::string(id), " ", what),
                   info);
}

absl::Status NoRole(std::string_view id) {
  return Denied(id, "has no role", {.reason = "NO_ROLE", .metadata = {}});
}

bool Has(const MethodRule& rule, Role role) {
  return std::find(rule.roles.begin(), rule.roles.end(), role) != rule.roles.end();
}

// Whether the resource belongs to the job or host of the peer.
bool IsOwn(const RoleOfPeer& peer, const MethodRule& rule, const service::Resource& resource) {
  switch (peer.role) {
    case Role::kJob:
      return resource.job == peer.name || (resource.job.empty() && !rule.of_a_job);
    case Role::kWorker:
      return resource.host == peer.name || resource.host.empty() || peer.name == kAnyHost;
    case Role::kViewer:
    case Role::kAdmin:
      return true;
  }
  return false;
}

// The error of a denied call. Tells a job that may list only its own resources which parent to
// name.
absl::Status RoleDenied(std::string_view id, const RoleOfPeer& peer, const MethodRule* rule,
                        const service::Resource& resource, const std::string& method) {
  const std::string about = service::NameOf(resource);
  ErrorInfo info{.reason = "ROLE_DENIED", .metadata = {{"method", method}, {"resource", about}}};
  std::string what = absl::StrCat("may not call ", method, about.empty() ? "" : " for ", about);
  const bool lists = method.starts_with("List") && rule != nullptr && rule->of_a_job;
  if (lists && peer.role == Role::kJob) {
    const std::string own = absl::StrCat("jobs/", peer.name);
    info.metadata["allowed_parent"] = own;
    absl::StrAppend(&what, "; it may for parent ", own, " (remeshctl --parent ", own,
                    ", or job: ", peer.name, " in its context)");
  }
  return Denied(id, what, std::move(info));
}

}  // namespace

absl::StatusOr<RoleOfPeer> RoleOf(std::string_view id, std::string_view trust_domain) {
  std::string_view rest = id;
  if (!rest.starts_with(kScheme)) return NoRole(id);
  rest.remove_prefix(kScheme.size());
  if (TakeSegment(rest) != trust_domain) {
    const std::string domain(trust_domain);
    return Denied(id, absl::StrCat("is not of trust domain ", domain),
                  {.reason = "NO_ROLE", .metadata = {{"trust_domain", domain}}});
  }
  const std::vector<std::string_view> path = SegmentsOf(rest);
  // Lists use "-" for all jobs, so no job may have this name.
  if (path.size() == 3 && path[0] == "job" && path[1] != "-") {
    return RoleOfPeer{Role::kJob, std::string(path[1])};
  }
  if (path.size() != 2) return NoRole(id);
  if (path[0] == "viewer") return RoleOfPeer{.role = Role::kViewer};
  if (path[0] == "admin") return RoleOfPeer{.role = Role::kAdmin};
  if (path[0] == "worker") return RoleOfPeer{Role::kWorker, std::string(path[1])};
  return NoRole(id);
}

namespace {

// The role of a worker's id, in any trust domain.
std::optional<RoleOfPeer> WorkersRole(std::string_view id) {
  if (!id.starts_with(kScheme)) return std::nullopt;
  std::string_view rest = id.substr(kScheme.size());
  const auto peer = RoleOf(id, TakeSegment(rest));
  if (!peer.ok() || peer->role != Role::kWorker) return std::nullopt;
  return *peer;
}

}  // namespace

std::string WorkerOf(std::string_view id) {
  const std::optional<RoleOfPeer> worker = WorkersRole(id);
  return worker && worker->name != kAnyHost ? worker->name : "";
}

bool IsWorker(std::string_view id) { return WorkersRole(id).has_value(); }

const std::vector<MethodRule>& MethodRules() {
  // All jobs share the plans. Methods that take plans from others, or that put a caller's plan in
  // place of others', are for administrators.
  static const auto* const kRules = new std::vector<MethodRule>{
      {"StateService", "CreateState", kJobs, /*of_a_job=*/true},
      {"StateService", "GetState", kReaders, true},
      {"StateService", "ListStates", kReaders, true},
      {"StateService", "WatchState", kReaders, true},
      {"StateService", "DeleteState", kJobs, true},
      {"StateService", "UpdateState", kJobs, true},
      {"ReshardService", "StartExecution", kJobs, true},
      {"ReshardService", "GetExecution", kReaders, true},
      {"ReshardService", "ListExecutions", kReaders, true},
      {"ReshardService", "WatchExecution", kReaders, true},
      {"ReshardService", "CancelExecution", kJobs, true},
      {"ReshardService", "ResolveExecution", kJobs, true},
      {"PlanService", "CreatePlan", kJobs},
      {"PlanService", "PrecomputePlans", kJobs},
      {"PlanService", "SuggestIntermediateSharding", kJobs},
      {"PlanService", "GetPlan", kReaders},
      {"PlanService", "StreamPlan", kReaders},
      {"PlanService", "ListPlans", kReaders},
      {"PlanService", "WatchPlans", kReaders},
      {"PlanService", "ExportPlan", kReaders},
      {"PlanService", "ExplainPlan", kReaders},
      {"PlanService", "RenderPlan", kReaders},
      {"PlanService", "GetCacheStats", kReaders},
      {"PlanService", "GetHostProgram", kProgramReaders},
      {"PlanService", "ImportPlan", kAdmins},
      {"PlanService", "DeletePlan", kAdmins},
      {"PlanService", "PinPlan", kAdmins},
      {"PlanService", "UnpinPlan", kAdmins},
      {"PlanService", "FlushPlans", kAdmins},
      {"WorkerService", "Attach", {Role::kWorker}},
      {"WorkerService", "ListWorkers", kReaders},
      {"WorkerService", "GetTopology", kReaders},
      {"WorkerService", "ForgetWorker", kAdmins},
      {"WorkerService", "ResetWorker", kAdmins},
      {"WorkerService", "DrainWorker", kAdmins},
      {"WorkerService", "UndrainWorker", kAdmins},
      {"WorkerService", "DiscardShards", kAdmins},
      {"CoordinationService", "Join", kJobs, true},
      {"CoordinationService", "Exchange", kJobs, true},
      {"CoordinationService", "Leave", kJobs, true},
      {"CoordinationService", "ReportPreemption", kJobs, true},
      {"CoordinationService", "AgreeStep", kJobs, true},
      {"CoordinationService", "ListWorlds", kReaders, true},
      {"AdminService", "GetServer", {Role::kViewer, Role::kAdmin}},
      {"AdminService", "BackUpJournal", kAdmins},
      {"LocalService", "GetHost", kSocket},
      {"LocalService", "Allocate", kSocket},
      {"LocalService", "Seal", kSocket},
      {"LocalService", "Lend", kSocket},
      {"LocalService", "Unseal", kSocket},
      {"LocalService", "GetShards", kSocket},
      {"LocalService", "Release", kSocket},
  };
  return *kRules;
}

bool IsRead(std::string_view method) {
  if (method == "CreatePlan" || method == "SuggestIntermediateSharding") return true;
  if (method == "Exchange" || method == "AgreeStep") return true;  // only between members
  const std::vector<MethodRule>& rules = MethodRules();
  return std::any_of(rules.begin(), rules.end(), [&](const MethodRule& rule) {
    return rule.method == method && Has(rule, Role::kViewer);
  });
}

service::Authorizer AuthorizeByRole(std::string trust_domain) {
  std::map<std::string, const MethodRule*, std::less<>> rules;
  for (const MethodRule& rule : MethodRules()) rules[rule.method] = &rule;
  return [trust_domain = std::move(trust_domain), rules = std::move(rules)](
             const service::Identity& identity, const service::Resource& resource,
             std::string_view method) -> absl::Status {
    ASSIGN_OR_RETURN(const RoleOfPeer peer, RoleOf(identity.name, trust_domain));
    const auto found = rules.find(method);
    const MethodRule* rule = found == rules.end() ? nullptr : found->second;
    const bool may = rule != nullptr && Has(*rule, peer.role) && IsOwn(peer, *rule, resource);
    if (may) return absl::OkStatus();
    return RoleDenied(identity.name, peer, rule, resource, std::string(method));
  };
}

}  // namespace remesh::server
