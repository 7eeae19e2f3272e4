// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/coordination/action.h"
#include "server/coordination/process.h"

namespace remesh::server::coordination {

// A world forms with its least number of members when no other process has come for this long.
inline constexpr absl::Duration kQuietTime = absl::Seconds(3);

// A process that waits for a world.
struct Candidate {
  Process process;
  int min_size = 1;  // 1 <= min_size <= max_size
  int max_size = 1;
  int rank = -1;  // asked for; -1: any
  SessionId session = 0;
  absl::Time deadline;  // until when it waits
};

// ALREADY_EXISTS (RANK_TAKEN) with host and pid of the living process, in metadata too.
absl::Status RankTaken(const Process& holder, int rank);

// The processes of one attempt that wait for a world: at least min_size of them, and with fewer
// than max_size only after kQuietTime. Ranks are as all of them ask, or else assigned by host and
// local index. A value. Not thread-safe.
class Forming {
 public:
  // The same process may come again, and ends its older session. ALREADY_EXISTS (RANK_TAKEN) if
  // another process waits for the same rank; INVALID_ARGUMENT if it does not ask for the same sizes
  // as the others, or for a rank where they do not.
  absl::Status Add(Candidate candidate, absl::Time now, Actions& actions);
  void Remove(SessionId session);

  // Takes out the members of a world that can form, by rank; none if none can.
  std::vector<Candidate> TakeWorld(absl::Time now);
  // Takes out those whose deadline has passed.
  std::vector<Candidate> TakeLate(absl::Time now);
  // When TakeWorld() and TakeLate() have something to take, if no other process comes.
  absl::Time WorldTime() const;
  absl::Time LateTime() const;

  bool empty() const { return waiting_.empty(); }
  // In the order in which they came.
  const std::map<uint64_t, Candidate>& waiting() const { return waiting_; }
  // "2 of 4 came: 0@host-a (pid 7), 2@host-b (pid 8); absent: 1, 3"
  std::string Describe() const;
  // Ranks that no process has asked for: "1, 3"; "" if processes ask for none.
  std::string Absent() const;

 private:
  absl::Status CheckFits(const Candidate& candidate) const;
  Candidate Take(uint64_t order);
  // How many of those who wait can be members of one world.
  int SizeOfWorld() const;

  std::map<uint64_t, Candidate> waiting_;  // in the order in which they came
  absl::flat_hash_map<std::string, uint64_t> by_nonce_;
  absl::flat_hash_map<SessionId, uint64_t> by_session_;
  std::map<int, uint64_t> by_rank_;  // of those who asked for one
  int next_rank_ = 0;                // all ranks below it have been asked for
  uint64_t next_order_ = 0;
  absl::Time last_came_ = absl::InfinitePast();
};

}  // namespace remesh::server::coordination
