// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "remesh/v1/local.pb.h"
#include "worker/local/host_facts.h"
#include "worker/local/outcome.h"
#include "worker/local/state_buffers.h"

namespace remesh::worker {

// Runs the calls of trainers and keeps those that wait. Not thread-safe. Each `done` runs exactly
// once, on the caller's thread.
class LocalCalls {
 public:
  template <typename Response>
  using Done = absl::AnyInvocable<void(absl::StatusOr<Response>)>;
  using CallId = uint64_t;
  static constexpr int kAskedAtOnce = 100;

  // Called when a call waits for a state that this host does not know, or for a generation that it
  // does not know of: the planner reports neither to a host without shards unless it is asked.
  using Wanted = absl::AnyInvocable<void(const std::string& state)>;

  // How many calls may wait. Each takes a few kilobytes until its caller gives up.
  struct Limits {
    int of_user = 4096;
    int all = 16384;
  };

  // `buffers` and `host` must outlive this.
  LocalCalls(StateBuffers* buffers, const HostFacts* host, Wanted wanted)
      : LocalCalls(buffers, host, std::move(wanted), {}) {}
  LocalCalls(StateBuffers* buffers, const HostFacts* host, Wanted wanted, Limits limits)
      : buffers_(buffers), host_(host), wanted_(std::move(wanted)), limits_(limits) {}

  // `user` calls. RESOURCE_EXHAUSTED (WAITING_CALLS) for a call that would have to wait while as
  // many wait as may, and for Lend, which must not begin to open memory then, in any case.
  void Allocate(CallId id, const v1::AllocateRequest& request, uid_t user,
                Done<v1::ShardsResponse> done);
  void Lend(CallId id, const v1::LendRequest& request, uid_t user, Done<v1::SealResponse> done);
  void GetShards(CallId id, const v1::GetShardsRequest& request, uid_t user,
                 Done<v1::ShardsResponse> done);
  void GetHost(CallId id, const v1::GetHostRequest& request, uid_t user,
               Done<v1::GetHostResponse> done);

  int waiting() const { return static_cast<int>(waiting_.size()); }
  int64_t retries() const { return retries_; }  // how often a waiting call was run again
  // Runs the waiting calls of a state again; to be called after a change of it.
  void Retry(const std::string& state);
  // Runs the calls again that wait for the worker to be attached.
  void Welcomed() { Retry(std::string()); }
  // Runs the calls again that wait for this generation to be readable: all its shards are sealed.
  void Sealed(const std::string& state, int64_t generation);
  // Ends the calls that wait for memory of `state`: it is reserved, or `status` says why it is not.
  void Reserved(const std::string& state, const absl::Status& status);
  // Calls `wanted` again for each state that a call waits for.
  void SendWanted();
  // Calls `wanted` again for states of which this host has no shard and a call waits for a later
  // generation; to be called from time to time. No more than kAskedAtOnce states each time, in
  // turn.
  void AskAgain();
  // Ends a waiting call with CANCELLED, and gives up what it lends. Does nothing if the call does
  // not wait.
  void Cancel(CallId id);
  // Ends every waiting call with UNAVAILABLE.
  void Close();

 private:
  struct Waiting {
    // Runs the call, and keeps its response for `done`. nullopt: there is one.
    absl::AnyInvocable<std::optional<Unanswered>()> call;
    // Answers with the response, or with an error.
    absl::AnyInvocable<void(absl::Status)> done;
    bool patient = false;  // waits for all that may come, not only for what is under way
    uid_t user = 0;
    Awaited awaited;
  };
  // A call whose response is in one place until it is answered.
  template <typename Response>
  static Waiting MakeCall(absl::AnyInvocable<Outcome<Response>()> call, Done<Response> done,
                          bool patient, uid_t user);

  // Runs a call, which waits from then on if it must.
  void Begin(CallId id, Waiting call);
  absl::Status CheckMayWait(uid_t user) const;
  // What the call must wait for, given its result; nullopt if it has ended.
  static std::optional<Awaited> WaitsFor(bool patient, const std::optional<Unanswered>& result);
  // Records what a call in `waiting_` waits for from now on.
  void Await(CallId id, Waiting& waiting, Awaited awaited);
  void Unlist(CallId id, const Awaited& awaited);
  void Retry(const std::vector<CallId>& ids);
  // Goes on with a call that waits, given its result.
  void Continue(CallId id, const std::optional<Unanswered>& result);
  // Ends a call that waits: with its response if `status` is OK.
  void End(CallId id, absl::Status status);

  StateBuffers* const buffers_;
  const HostFacts* const host_;
  Wanted wanted_;
  const Limits limits_;
  int64_t retries_ = 0;
  std::map<uid_t, int> of_user_;  // how many of the user's calls wait
  std::map<CallId, Waiting> waiting_;
  // The same calls by what they wait for, so that a change costs only what it concerns.
  std::map<Awaited, std::set<CallId>> by_awaited_;
  Awaited asked_last_;  // by AskAgain()
};

}  // namespace remesh::worker
