// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/outcome.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"

namespace remesh::server::coordination {
namespace {

using Ranks = std::vector<int>;

// Of an ExchangeResponse, and of each payload in it, beside the payloads' bytes.
constexpr size_t kAnswerOverhead = 32;
constexpr size_t kPayloadOverhead = 6;

std::string NameOf(Mode mode) {
  switch (mode) {
    case Mode::kBarrier:
      return "barrier";
    case Mode::kAgree:
      return "agree";
    case Mode::kBroadcast:
      return "broadcast";
    case Mode::kGather:
      return "gather";
  }
  return "?";
}

// The call as its caller wrote it, without its payload.
std::string CallOf(const Contribution& contribution) {
  std::string call = absl::StrCat(NameOf(contribution.mode), " \"", contribution.name, "\"");
  const bool rooted = contribution.mode == Mode::kBroadcast || contribution.mode == Mode::kGather;
  if (rooted) absl::StrAppend(&call, " with root ", contribution.root);
  return call;
}

// Which ranks have the same, by what they have; in the order of the first of each.
template <typename Of>
std::vector<std::pair<std::string, Ranks>> GroupsBy(const Contributions& contributions,
                                                    const Of& of) {
  std::vector<std::pair<std::string, Ranks>> groups;
  std::map<std::string, size_t> place;
  for (const auto& [rank, contribution] : contributions) {
    const auto [at, added] = place.emplace(of(contribution), groups.size());
    if (added) groups.emplace_back(at->first, Ranks());
    groups[at->second].second.push_back(rank);
  }
  return groups;
}

// "0@a, 1@b at barrier "save"; 2@c at barrier "restore"", if they are at different calls.
std::optional<std::string> DifferentCalls(const Contributions& contributions,
                                          const std::vector<std::string>& hosts) {
  const auto groups = GroupsBy(contributions, CallOf);
  if (groups.size() < 2) return std::nullopt;
  std::string calls =
      absl::StrJoin(groups.begin(), groups.begin() + std::min(groups.size(), kNamedMax), "; ",
                    [&](std::string* out, const auto& group) {
                      absl::StrAppend(out, NamesOf(group.second, hosts), " at ", group.first);
                    });
  if (groups.size() > kNamedMax) {
    absl::StrAppend(&calls, "; and ", groups.size() - kNamedMax, " other calls");
  }
  return calls;
}

// The digest with this number, 0 being the structure's; "" if there is none.
std::string DigestAt(const Contribution& contribution, size_t number) {
  const std::string payload(contribution.payload);
  const size_t begin = number * kDigestBytes;
  return begin < payload.size() ? payload.substr(begin, kDigestBytes) : "";
}

// "0@a and 3@d have one, 1@b another": who agrees with whom, not on what.
std::string Parties(const std::vector<std::pair<std::string, Ranks>>& groups,
                    const std::vector<std::string>& hosts) {
  std::string parties = absl::StrJoin(
      groups.begin(), groups.begin() + std::min(groups.size(), kNamedMax), " | ",
      [&](std::string* out, const auto& group) { *out += NamesOf(group.second, hosts); });
  if (groups.size() > kNamedMax) {
    absl::StrAppend(&parties, " | and ", groups.size() - kNamedMax, " other values");
  }
  return parties;
}

// The number of the first digest that not all have equal; none if all payloads are.
std::optional<size_t> FirstDifference(const Contributions& contributions) {
  const std::string first(contributions.begin()->second.payload);
  size_t equal = SIZE_MAX;  // bytes that all have
  for (const auto& [rank, contribution] : contributions) {
    if (contribution.payload == first) continue;
    const std::string other(contribution.payload);
    const auto [here, there] =
        std::mismatch(first.begin(), first.end(), other.begin(), other.end());
    equal = std::min(equal, static_cast<size_t>(here - first.begin()));
  }
  if (equal == SIZE_MAX) return std::nullopt;
  return equal / kDigestBytes;
}

Outcome DecideAgreement(const Contributions& contributions, const std::vector<std::string>& hosts) {
  const std::optional<size_t> number = FirstDifference(contributions);
  if (!number) return Outcome();
  const std::string& name = contributions.begin()->second.name;
  const std::string parties = Parties(
      GroupsBy(contributions, [&](const Contribution& each) { return DigestAt(each, *number); }),
      hosts);
  if (*number == 0) {
    return Failure(Ending::kStructureMismatch,
                   absl::StrCat(name, ": structures differ; equal ones at ", parties));
  }
  return Failure(Ending::kValuesDiffer,
                 absl::StrCat(name, ": values differ in group ", *number - 1,
                              " of leaves; equal ones at ", parties),
                 {{"group", absl::StrCat(*number - 1)}});
}

Outcome DecideGather(const Contributions& contributions, int root) {
  Outcome outcome;
  outcome.to = root;
  outcome.payloads.reserve(contributions.size());
  for (const auto& [rank, contribution] : contributions) {
    outcome.payloads.push_back(contribution.payload);
  }
  return outcome;
}

Outcome DecideBroadcast(const Contributions& contributions, int root) {
  Outcome outcome;
  outcome.payloads.push_back(contributions.at(root).payload);
  return outcome;
}

// The outcome, unless its payloads are too large to be sent to all who get them.
Outcome Sendable(const Contributions& contributions, Outcome outcome, size_t message_max) {
  const size_t receivers = outcome.to == -1 ? contributions.size() : 1;
  size_t bytes = 0;
  size_t message = kAnswerOverhead;
  for (const absl::Cord& payload : outcome.payloads) {
    bytes += std::max(payload.size(), kPayloadCost);
    message += payload.size() + kPayloadOverhead;
  }
  if (message > message_max) {
    return Failure(Ending::kTooLarge,
                   absl::StrCat(contributions.begin()->second.name, ": an answer of ", message,
                                " bytes is more than ", message_max));
  }
  if (bytes <= kSentMax / receivers) return outcome;
  return Failure(Ending::kTooLarge, absl::StrCat(contributions.begin()->second.name, ": ", bytes,
                                                 " bytes for each of ", receivers,
                                                 " members are more than ", kSentMax));
}

// Lengths go in front, so that no two outcomes give the same bytes.
void Append(XXH3_state_t* state, const std::string& bytes) {
  const uint64_t length = bytes.size();
  XXH3_128bits_update(state, &length, sizeof(length));
  XXH3_128bits_update(state, bytes.data(), bytes.size());
}

}  // namespace

std::string NameOf(Ending ending) {
  switch (ending) {
    case Ending::kOk:
      return "OK";
    case Ending::kNameMismatch:
      return "NAME_MISMATCH";
    case Ending::kStructureMismatch:
      return "STRUCTURE_MISMATCH";
    case Ending::kValuesDiffer:
      return "VALUES_DIFFER";
    case Ending::kTimeout:
      return "BARRIER_TIMEOUT";
    case Ending::kMemberLeft:
      return "MEMBER_LEFT";
    case Ending::kMemberLost:
      return "MEMBER_LOST";
    case Ending::kResultsDiffer:
      return "RESULTS_DIFFER";
    case Ending::kTooLarge:
      return "TOO_LARGE";
  }
  return "?";
}

std::string NamesOf(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  const size_t named = std::min(ranks.size(), kNamedMax);
  std::string list = absl::StrJoin(
      ranks.begin(), ranks.begin() + named, ", ",
      [&](std::string* out, int rank) { absl::StrAppend(out, rank, "@", hosts[rank]); });
  if (named < ranks.size()) absl::StrAppend(&list, " and ", ranks.size() - named, " more");
  return list;
}

Outcome Failure(Ending ending, std::string message, std::map<std::string, std::string> metadata) {
  Outcome outcome;
  outcome.ending = ending;
  outcome.message = std::move(message);
  outcome.metadata = std::move(metadata);
  return outcome;
}

absl::Status StatusOf(const Outcome& outcome) {
  if (outcome.ending == Ending::kOk) return absl::OkStatus();
  absl::StatusCode code = absl::StatusCode::kFailedPrecondition;
  if (outcome.ending == Ending::kTimeout) code = absl::StatusCode::kDeadlineExceeded;
  if (outcome.ending == Ending::kTooLarge) code = absl::StatusCode::kResourceExhausted;
  return MakeError(code, outcome.message,
                   {.reason = NameOf(outcome.ending), .metadata = outcome.metadata});
}

Outcome Decide(const Contributions& contributions, const std::vector<std::string>& hosts,
               size_t message_max) {
  if (auto calls = DifferentCalls(contributions, hosts)) {
    return Failure(Ending::kNameMismatch, "members are at different calls: " + *calls);
  }
  const Contribution& first = contributions.begin()->second;
  switch (first.mode) {
    case Mode::kBarrier:
      return Outcome();
    case Mode::kAgree:
      return DecideAgreement(contributions, hosts);
    case Mode::kBroadcast:
      return Sendable(contributions, DecideBroadcast(contributions, first.root), message_max);
    case Mode::kGather:
      return Sendable(contributions, DecideGather(contributions, first.root), message_max);
  }
  return Outcome();
}

Outcome TimedOut(const Contributions& contributions, const std::vector<std::string>& hosts) {
  Ranks absent;
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) {
    if (!contributions.contains(rank)) absent.push_back(rank);
  }
  const std::string names = NamesOf(absent, hosts);
  if (auto calls = DifferentCalls(contributions, hosts)) {
    return Failure(Ending::kNameMismatch,
                   absl::StrCat("members are at different calls: ", *calls, "; absent: ", names),
                   {{"absent", names}});
  }
  return Failure(Ending::kTimeout,
                 absl::StrCat(contributions.begin()->second.name,
                              ": not all members came in time; absent: ", names),
                 {{"absent", names}});
}

std::string DigestOf(const Outcome& outcome) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  Append(state.get(), NameOf(outcome.ending));
  Append(state.get(), outcome.message);
  Append(state.get(), absl::StrCat(outcome.to));
  for (const absl::Cord& payload : outcome.payloads) Append(state.get(), std::string(payload));
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state.get()));
  return std::string(reinterpret_cast<const char*>(canonical.digest), sizeof(canonical.digest));
}

}  // namespace remesh::server::coordination
