// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/coordination/fences.h"
#include "server/coordination/registry.h"

namespace remesh::server::coordination {

// Rules of the protocol that can be broken, to see that the simulation finds it.
struct BrokenRules {
  bool other_payloads = false;    // a member that calls again brings another payload
  bool no_digests = false;        // members do not tell the digests of their results
  bool last_round_only = false;   // they tell their last round, not all since their last OK
  bool waits_for_no_one = false;  // after a restart the server goes on with the first that is back
  bool formed_before_disk = false;  // Formed is sent before the epoch is on disk
  bool raises_late = false;         // the fences learn of an epoch after its members do
  bool forgets_loss = false;        // the server never takes a member for lost
  bool no_leap = false;             // the epochs go on from a disk that went back
};

// Worlds of processes that join, exchange, agree on steps, write with fences, leave, die, stop and
// lag, over a network that delays and cuts, and a server that dies and comes back, with the real
// Registry and Fences. All by one seed. Laws are checked as it runs.
class WorldsSimulation {
 public:
  WorldsSimulation(uint64_t seed, BrokenRules broken);
  ~WorldsSimulation();

  // A time with faults, then one without, in which all must finish.
  void Run();

  const std::vector<std::string>& violations() const { return violations_; }
  // What happened how often: rounds by ending, restarts, and so on.
  const std::map<std::string, int>& counts() const { return counts_; }

 private:
  struct Job;     // a scope, and who starts its processes
  struct Client;  // a process
  struct Result {
    std::string ending;  // "OK", or the reason of its failure
    std::string what;    // digest or message
    std::string payload;
  };
  struct Round {
    std::map<int, Result> results;  // by rank
  };
  struct Epoch {
    std::map<uint64_t, Round> rounds;
    std::optional<int64_t> step;
    int64_t highest_step = -1;
  };
  struct Server {
    int life = 0;
    std::unique_ptr<Registry> registry;
    std::unique_ptr<Fences> fences;
    std::map<SessionId, Client*> sessions;
    std::map<CallId, Client*> calls;
    std::map<CallId, absl::Time> deadlines;
    std::map<SessionId, int64_t> epoch_of;  // what Formed said
  };
  struct Disk {
    int64_t last_epoch = 0;
    std::map<std::string, KnownEpoch> worlds;
  };
  struct Event {
    absl::Time time;
    uint64_t order = 0;
    std::function<void()> run;
    bool operator<(const Event& other) const {  // for a queue of the earliest first
      return std::tie(time, order) > std::tie(other.time, other.order);
    }
  };

  // Time and chance.
  void At(absl::Time time, std::function<void()> run);
  void After(absl::Duration delay, std::function<void()> run) { At(now_ + delay, std::move(run)); }
  void Advance(absl::Time until);
  uint64_t Below(uint64_t end) { return random_() % end; }
  bool Chance(double probability) { return Below(1'000'000) < probability * 1e6; }
  absl::Duration Between(absl::Duration least, absl::Duration most);
  absl::Duration Delay();

  // The server.
  void StartServer();
  void CrashServer();
  void Perform(Actions actions);
  void Save(const SaveEpoch& save);
  void OnAnswer(const Answer& answer);
  void CheckFormed(const SendFormed& formed);
  void CheckRaised(const RaiseEpoch& raised);
  void CheckDeadlines();
  // Runs `call` on the registry of this life of the server.
  void AtServer(std::function<void(Actions&)> call);
  void ToServer(Client& client, std::function<void(Actions&)> call);
  void EndStreams(Client& client, absl::Duration delay);
  void ToClient(Client& client, std::function<void()> run);

  // Processes.
  void OnClient(Client& client, absl::Duration delay, std::function<void()> run);
  void StartProcess(Job& job, int place);
  void JoinWorld(Client& client);
  void AfterWorld(Client& client);
  void Open(Client& client);
  void Cut(Client& client);
  void Die(Client& client);
  void Step(Client& client);
  void SendCall(Client& client);
  bool LeavesEarly(const Client& client) const;
  void Leave(Client& client);
  void Write(Client& client);
  void OnFormed(Client& client, int64_t epoch, int rank, int size);
  void OnOver(Client& client);
  void OnStreamEnd(Client& client, const absl::Status& status);
  void OnResult(Client& client, uint64_t sequence, const Answer& answer);
  void OnStep(Client& client, const absl::StatusOr<AgreedStep>& step);
  void OnAway(Client& client);
  void Record(Client& client, uint64_t sequence, Result result);
  Contribution ContributionOf(const Client& client, uint64_t sequence) const;
  std::vector<Finished> Told(const Client& client) const;

  void Chaos();
  void CheckEnd();
  void CheckRounds();
  std::string ShownWorlds() const;
  void Violate(const std::string& what);

  const uint64_t seed_;
  const BrokenRules broken_;
  std::mt19937_64 random_;
  absl::Time now_;
  std::priority_queue<Event> events_;
  uint64_t order_ = 0;
  bool quiet_ = false;  // no more faults
  Server server_;
  Disk disk_;
  absl::Time disk_free_;  // when it has written what it was asked to
  Disk kept_;             // what the disk may go back to
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<std::unique_ptr<Client>> clients_;
  uint64_t next_id_ = 1;
  std::map<std::string, std::map<int64_t, Epoch>> history_;  // by scope
  std::map<std::string, int64_t> formed_;                    // the highest epoch that a member received
  std::map<int64_t, std::string> epochs_;                    // those received, and of which scope
  std::vector<std::string> violations_;
  std::map<std::string, int> counts_;
};

}  // namespace remesh::server::coordination
