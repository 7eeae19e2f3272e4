// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/forming.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::server::coordination {
namespace {

auto PlaceOf(const Process& process) {
  return std::tie(process.host, process.local_index, process.pid, process.nonce);
}

absl::Status Differs(const char* field, int value, int others) {
  return InvalidField(field, absl::StrCat(value),
                      absl::StrCat("must be ", others, ", as on the members that wait"));
}

}  // namespace

absl::Status CalledAgain() {
  return MakeError(absl::StatusCode::kUnavailable, "the same call came again",
                   {.reason = "CALLED_AGAIN", .metadata = {}});
}

absl::Status JoinedAgain() {
  return MakeError(absl::StatusCode::kUnavailable, "the member joined again",
                   {.reason = "JOINED_AGAIN", .metadata = {}});
}

absl::Status RankTaken(const Process& holder, int rank) {
  const std::string pid = absl::StrCat(holder.pid);
  return MakeError(
      absl::StatusCode::kAlreadyExists,
      absl::StrCat("rank ", rank, " is taken by process ", pid, " on ", holder.host,
                   ", which lives"),
      {.reason = "RANK_TAKEN",
       .metadata = {{"rank", absl::StrCat(rank)}, {"host", holder.host}, {"pid", pid}}});
}

absl::Status Forming::Add(Candidate candidate, absl::Time now, Actions& actions) {
  const auto before = by_nonce_.find(candidate.process.nonce);
  if (before != by_nonce_.end()) {
    actions.push_back(EndSession{Take(before->second).session});
  }
  RETURN_IF_ERROR(CheckFits(candidate));
  const uint64_t order = next_order_++;
  by_nonce_[candidate.process.nonce] = order;
  by_session_[candidate.session] = order;
  if (candidate.rank != -1) by_rank_[candidate.rank] = order;
  while (by_rank_.contains(next_rank_)) ++next_rank_;
  waiting_.emplace(order, std::move(candidate));
  last_came_ = now;
  return absl::OkStatus();
}

absl::Status Forming::CheckFits(const Candidate& candidate) const {
  if (waiting_.empty()) return absl::OkStatus();
  const Candidate& first = waiting_.begin()->second;
  if (candidate.min_size != first.min_size) {
    return Differs("min_size", candidate.min_size, first.min_size);
  }
  if (candidate.max_size != first.max_size) {
    return Differs("max_size", candidate.max_size, first.max_size);
  }
  if ((candidate.rank == -1) != (first.rank == -1)) {
    return InvalidField("rank", absl::StrCat(candidate.rank),
                        "must be asked for by all members, or by none");
  }
  const auto holder = by_rank_.find(candidate.rank);
  if (holder == by_rank_.end()) return absl::OkStatus();
  return RankTaken(waiting_.at(holder->second).process, candidate.rank);
}

Candidate Forming::Take(uint64_t order) {
  Candidate taken = std::move(waiting_.extract(order).mapped());
  by_nonce_.erase(taken.process.nonce);
  by_session_.erase(taken.session);
  if (taken.rank == -1) return taken;
  by_rank_.erase(taken.rank);
  next_rank_ = std::min(next_rank_, taken.rank);
  return taken;
}

void Forming::Remove(SessionId session) {
  const auto at = by_session_.find(session);
  if (at != by_session_.end()) Take(at->second);
}

int Forming::SizeOfWorld() const {
  const Candidate& first = waiting_.begin()->second;
  const int together = first.rank == -1 ? static_cast<int>(waiting_.size()) : next_rank_;
  return std::min(first.max_size, together);
}

std::vector<Candidate> Forming::TakeWorld(absl::Time now) {
  if (waiting_.empty()) return {};
  const Candidate& first = waiting_.begin()->second;
  const int size = SizeOfWorld();
  if (size < first.min_size) return {};
  // A rank that is missing below others is on its way.
  const bool gap = size < std::min(first.max_size, static_cast<int>(waiting_.size()));
  const bool quiet = !gap && now >= last_came_ + kQuietTime;
  if (size < first.max_size && !quiet) return {};
  const bool asked = first.rank != -1;
  std::vector<uint64_t> orders;
  for (const auto& [order, each] : waiting_) {
    if (asked ? each.rank < size : static_cast<int>(orders.size()) < size) orders.push_back(order);
  }
  std::vector<Candidate> members;
  for (const uint64_t order : orders) members.push_back(Take(order));
  std::sort(members.begin(), members.end(), [&](const Candidate& a, const Candidate& b) {
    return asked ? a.rank < b.rank : PlaceOf(a.process) < PlaceOf(b.process);
  });
  return members;
}

std::vector<Candidate> Forming::TakeLate(absl::Time now) {
  std::vector<uint64_t> orders;
  for (const auto& [order, each] : waiting_) {
    if (now >= each.deadline) orders.push_back(order);
  }
  std::vector<Candidate> late;
  for (const uint64_t order : orders) late.push_back(Take(order));
  return late;
}

absl::Time Forming::WorldTime() const {
  const bool enough = !waiting_.empty() && SizeOfWorld() >= waiting_.begin()->second.min_size;
  return enough ? last_came_ + kQuietTime : absl::InfiniteFuture();
}

absl::Time Forming::LateTime() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [order, each] : waiting_) next = std::min(next, each.deadline);
  return next;
}

std::string Forming::Describe() const {
  if (waiting_.empty()) return "no process waits";
  std::string text = absl::StrCat(waiting_.size(), " of ", waiting_.begin()->second.min_size);
  if (waiting_.begin()->second.min_size != waiting_.begin()->second.max_size) {
    absl::StrAppend(&text, " to ", waiting_.begin()->second.max_size);
  }
  absl::StrAppend(&text, " came: ");
  size_t named = 0;
  for (const auto& [order, each] : waiting_) {
    if (named == kNamedMax) {
      absl::StrAppend(&text, " and ", waiting_.size() - kNamedMax, " more");
      break;
    }
    absl::StrAppend(&text, named++ == 0 ? "" : ", ");
    if (each.rank != -1) absl::StrAppend(&text, each.rank, "@");
    absl::StrAppend(&text, each.process.host, " (pid ", each.process.pid, ")");
  }
  const std::string absent = Absent();
  if (!absent.empty()) absl::StrAppend(&text, "; absent: ", absent);
  return text;
}

std::string Forming::Absent() const {
  if (by_rank_.empty()) return "";
  std::vector<int> absent;
  for (int rank = 0; rank < waiting_.begin()->second.max_size; ++rank) {
    if (!by_rank_.contains(rank)) absent.push_back(rank);
  }
  const auto end = absent.begin() + std::min(absent.size(), kNamedMax);
  std::string text = absl::StrJoin(absent.begin(), end, ", ");
  if (end != absent.end()) absl::StrAppend(&text, " and ", absent.end() - end, " more");
  return text;
}

}  // namespace remesh::server::coordination
