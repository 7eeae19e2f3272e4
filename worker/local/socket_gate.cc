// SPDX-License-Identifier: Apache-2.0
#include "worker/local/socket_gate.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "service/tls/authorization.h"
#include "worker/keeper/packets.h"

namespace remesh::worker {
namespace {

// The kernel uses -1 for "no user".
absl::StatusOr<uint32_t> ParseId(const std::string& field, const std::string& text) {
  uint32_t id = 0;
  if (absl::SimpleAtoi(text, &id) && id != std::numeric_limits<uint32_t>::max()) return id;
  return InvalidField(field, text, "must be a number from 0 to 4294967294");
}

absl::StatusOr<std::set<uint32_t>> ParseIds(const std::string& field,
                                            const std::vector<std::string>& texts) {
  std::set<uint32_t> ids;
  for (size_t i = 0; i < texts.size(); ++i) {
    ASSIGN_OR_RETURN(const uint32_t id, ParseId(absl::StrCat(field, "[", i, "]"), texts[i]));
    ids.insert(id);
  }
  return ids;
}

absl::StatusOr<std::map<uid_t, std::string>> ParseJobs(const std::string& text) {
  constexpr char kField[] = "socket_jobs_by_uid";
  std::map<uid_t, std::string> jobs;
  if (text.empty()) return jobs;
  const nlohmann::json map = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!map.is_object()) return InvalidField(kField, text, "must be a map from uid to job");
  for (const auto& [uid, job] : map.items()) {
    ASSIGN_OR_RETURN(const uint32_t id, ParseId(kField, uid));
    const bool named = job.is_string() && !job.get_ref<const std::string&>().empty() &&
                       job.get_ref<const std::string&>().find('/') == std::string::npos;
    if (!named) {
      return InvalidField(absl::StrCat(kField, ".", uid), job.dump(), "must be the name of a job");
    }
    jobs[id] = job.get<std::string>();
  }
  return jobs;
}

absl::Status Refused(const char* reason, uid_t uid, const std::string& job,
                     const std::string& what) {
  const std::string number = absl::StrCat(uid);
  return MakeError(absl::StatusCode::kPermissionDenied,
                   absl::StrCat("uid ", number, " may not call about job \"", job, "\": ", what),
                   {.reason = reason, .metadata = {{"uid", number}, {"job", job}}});
}

// Returns the groups in addition to the one in SO_PEERCRED. Reserving the largest possible list,
// 256 KiB, would take thirty times as long as the query.
std::vector<gid_t> GroupsAt(int fd) {
  std::vector<gid_t> groups(64);
  const auto ask = [&] {
    auto length = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    const int result = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &length);
    const bool more = result != 0 && errno == ERANGE;  // then the kernel has set the size it needs
    groups.resize(result == 0 || more ? length / sizeof(gid_t) : 0);
    return more;
  };
  if (ask() && ask()) groups.clear();  // a connection's groups never change
  return groups;
}

}  // namespace

absl::StatusOr<SocketRules> MakeSocketRules(const std::vector<std::string>& uids,
                                            const std::vector<std::string>& gids,
                                            const std::string& jobs_json) {
  SocketRules rules;
  ASSIGN_OR_RETURN(rules.uids, ParseIds("socket_allowed_uids", uids));
  ASSIGN_OR_RETURN(rules.gids, ParseIds("socket_allowed_gids", gids));
  ASSIGN_OR_RETURN(rules.jobs, ParseJobs(jobs_json));
  return rules;
}

std::optional<SocketGate::Caller> SocketGate::CallerAt(int fd) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return std::nullopt;
  std::vector<gid_t> groups = GroupsAt(fd);
  groups.push_back(credentials.gid);
  return Caller{.uid = credentials.uid, .gids = std::move(groups)};
}

void SocketGate::Admit(int fd) {
  std::optional<Caller> caller = CallerAt(fd);
  absl::MutexLock lock(&mutex_);
  callers_.erase(fd);  // of an earlier connection
  if (caller) callers_[fd] = *std::move(caller);
}

bool SocketGate::MayConnect(int fd) const {
  const std::optional<Caller> caller = CallerAt(fd);
  absl::MutexLock lock(&mutex_);
  return caller && Listed(*caller);
}

bool SocketGate::Listed(const Caller& caller) const {
  if (rules_.uids.empty() && rules_.gids.empty()) return true;
  return rules_.uids.contains(caller.uid) ||
         std::any_of(caller.gids.begin(), caller.gids.end(),
                     [&](gid_t gid) { return rules_.gids.contains(gid); });
}

void SocketGate::SetRules(SocketRules rules) {
  absl::MutexLock lock(&mutex_);
  rules_ = std::move(rules);
}

const SocketGate::Caller* SocketGate::Find(const std::string& peer) const {
  absl::string_view number = peer;
  int fd = -1;
  if (!absl::ConsumePrefix(&number, "fd:") || !absl::SimpleAtoi(number, &fd)) return nullptr;
  const auto caller = callers_.find(fd);
  return caller == callers_.end() ? nullptr : &caller->second;
}

uid_t SocketGate::UserOf(const std::string& peer) const {
  absl::MutexLock lock(&mutex_);
  const Caller* const caller = Find(peer);
  return caller == nullptr ? kUnknownUser : caller->uid;
}

absl::Status SocketGate::Check(const std::string& peer, const std::string& state) const {
  absl::MutexLock lock(&mutex_);
  if (rules_.uids.empty() && rules_.gids.empty() && rules_.jobs.empty()) return absl::OkStatus();
  const std::string job(service::JobOf(state));
  ASSIGN_OR_RETURN(const Caller* caller, FindListed(peer, job));
  return CheckJob(*caller, job);
}

absl::Status SocketGate::CheckAny(const std::string& peer) const {
  absl::MutexLock lock(&mutex_);
  if (rules_.uids.empty() && rules_.gids.empty()) return absl::OkStatus();
  return FindListed(peer, "").status();
}

absl::StatusOr<const SocketGate::Caller*> SocketGate::FindListed(const std::string& peer,
                                                                 const std::string& job) const {
  const Caller* const caller = Find(peer);
  if (caller == nullptr) {
    return MakeError(absl::StatusCode::kPermissionDenied,
                     absl::StrCat("it is not known who calls from ", peer),
                     {.reason = "SOCKET_CALLER_REFUSED", .metadata = {{"peer", peer}}});
  }
  if (Listed(*caller)) return caller;
  return Refused("SOCKET_CALLER_REFUSED", caller->uid, job,
                 "neither socket_allowed_uids nor socket_allowed_gids has it");
}

absl::Status SocketGate::CheckJob(const Caller& caller, const std::string& job) const {
  const auto own = rules_.jobs.find(caller.uid);
  if (own == rules_.jobs.end() || own->second == job) return absl::OkStatus();
  return Refused("SOCKET_JOB_REFUSED", caller.uid, job,
                 absl::StrCat("socket_jobs_by_uid gives it job \"", own->second, "\""));
}

}  // namespace remesh::worker
