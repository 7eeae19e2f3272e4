// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace remesh::server::coordination {

enum class Mode { kBarrier, kAgree, kBroadcast, kGather };

// What one member brings to a round. `root`: of a broadcast, the member that sends; of a gather,
// the member that receives, or -1 for all. `payload` of an agreement: the digest of the value's
// structure (kDigestBytes), then one for each group of its leaves, in order.
struct Contribution {
  std::string name;
  Mode mode = Mode::kBarrier;
  int root = 0;
  absl::Cord payload;

  friend bool operator==(const Contribution&, const Contribution&) = default;
};

inline constexpr size_t kDigestBytes = 16;
inline constexpr size_t kLeafDigestsMax = 64;
// Bytes of payloads that a round may send to all its members together. Each payload counts at least
// kPayloadCost, for what it takes beside its bytes.
inline constexpr size_t kSentMax = size_t{1} << 30;
inline constexpr size_t kPayloadCost = 64;
// Bytes of a message with payloads that gRPC takes, if the server's options do not say otherwise.
inline constexpr size_t kMessageMax = size_t{64} << 20;

// Ranks, processes and groups of ranks that a message names.
inline constexpr size_t kNamedMax = 16;

// By rank.
using Contributions = std::map<int, Contribution>;

enum class Ending {
  kOk,
  kNameMismatch,
  kStructureMismatch,
  kValuesDiffer,
  kTimeout,
  kMemberLeft,
  kMemberLost,
  kResultsDiffer,
  kTooLarge,
};

// How errors call it: "BARRIER_TIMEOUT".
std::string NameOf(Ending ending);

// What a round ended with: one value for all members, whoever is answered when.
struct Outcome {
  Ending ending = Ending::kOk;
  // Who and what, for people. "" if OK.
  std::string message;
  // Of its error: "absent" of BARRIER_TIMEOUT, "group" of VALUES_DIFFER.
  std::map<std::string, std::string> metadata;
  // Of a gather those of all members by rank; of a broadcast the root's alone.
  std::vector<absl::Cord> payloads;
  // The member that gets `payloads`; -1: all.
  int to = -1;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};
// As all who get the same share it.
using SharedOutcome = std::shared_ptr<const Outcome>;

// A failure.
Outcome Failure(Ending ending, std::string message,
                std::map<std::string, std::string> metadata = {});

// "3@host-b, 5@host-c and 7 more".
std::string NamesOf(const std::vector<int>& ranks, const std::vector<std::string>& hosts);

// The error of a failure, with the ending's name as its reason: DEADLINE_EXCEEDED for
// BARRIER_TIMEOUT, RESOURCE_EXHAUSTED for TOO_LARGE, else FAILED_PRECONDITION. OK for OK.
absl::Status StatusOf(const Outcome& outcome);

// Of a round to which every member contributed. `hosts`: of each rank, for messages.
//
// NAME_MISMATCH if they are at different calls (name, mode or root), and then who is at which;
// STRUCTURE_MISMATCH, VALUES_DIFFER of an agreement: which groups of ranks have the same, and the
// first group of leaves that differs; TOO_LARGE above kSentMax, or if a member's answer would be above
// `message_max`. Else OK.
Outcome Decide(const Contributions& contributions, const std::vector<std::string>& hosts,
               size_t message_max = kMessageMax);

// Of a round whose deadline passed: names who was absent as rank@host, and who is at another call.
Outcome TimedOut(const Contributions& contributions, const std::vector<std::string>& hosts);

// XXH3-128 of all of it. Members keep it in place of an outcome's payloads.
std::string DigestOf(const Outcome& outcome);

}  // namespace remesh::server::coordination
