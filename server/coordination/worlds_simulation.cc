// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/worlds_simulation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace remesh::server::coordination {

// Reaches into the machine to break its rules.
class RegistryTestPeer {
 public:
  static void EndReturn(Registry& registry, const std::string& scope) {
    const auto at = registry.scopes_.find(scope);
    if (at == registry.scopes_.end() || !at->second.world) return;
    at->second.world->return_deadline_ = absl::InfiniteFuture();
  }
  static void ForgetLoss(Registry& registry) {
    for (auto& [name, scope] : registry.scopes_) {
      if (!scope.world) continue;
      for (auto& seat : scope.world->members_) seat.lost_at = absl::InfiniteFuture();
    }
  }
};

namespace {

constexpr absl::Duration kTick = absl::Milliseconds(10);
constexpr absl::Duration kSilence = absl::Seconds(10);        // after which a peer is given up
constexpr absl::Duration kTakenPatience = absl::Seconds(15);  // of a process whose rank is taken
constexpr absl::Duration kChaos = absl::Seconds(60);
constexpr absl::Duration kQuiet = absl::Seconds(100);
constexpr absl::Duration kLongestTimeout = absl::Seconds(15);

uint64_t Mixed(uint64_t a, uint64_t b) {
  uint64_t mixed = (a + 0x9e3779b97f4a7c15) ^ (b * 0xbf58476d1ce4e5b9);
  mixed = (mixed ^ (mixed >> 30)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

std::string ReasonOf(const absl::Status& status) {
  const std::string reason = GetErrorInfo(status).reason;
  return reason.empty() ? absl::StatusCodeToString(status.code()) : reason;
}

bool EndsWorld(const std::string& ending) {
  return ending == "MEMBER_LOST" || ending == "RESULTS_DIFFER" || ending == "OVER";
}

}  // namespace

struct WorldsSimulation::Job {
  std::string scope;
  int size = 1;
  int min_size = 1;
  bool asks_ranks = true;
  bool restarts_all = false;  // a launcher that ends all processes when one ends
  int attempt = 0;
  std::vector<Client*> at;  // the process of each place; null: none now
  absl::Time last_ok;
};

struct WorldsSimulation::Client {
  uint64_t id = 0;
  Job* job = nullptr;
  int place = 0;
  int attempt = 0;
  bool alive = true;
  bool stopped = false;
  std::vector<std::function<void()>> inbox;  // while it is stopped

  // Of its membership, as world_session.py keeps it.
  std::string nonce;
  int64_t epoch = 0;
  int rank = 0;
  int size = 0;
  bool in = false;
  bool over = false;
  SessionId session = 0;
  int connection = 0;  // counts them
  absl::Time heard;    // of its stream's last event
  std::optional<absl::Time> taken_since;

  // Of its rounds, as server_group.py keeps them.
  uint64_t sequence = 0;
  std::vector<Finished> finished;
  std::optional<int64_t> agreed;
  bool has_agreed = false;
  enum class Waits { kNothing, kRound, kStep } waits = Waits::kNothing;
  CallId call = 0;
  int told = 0;   // how often it told its rounds
  int asked = 0;  // the same when it called
  absl::Time since;
  absl::Time give_up;
  int64_t step = 0;
};

WorldsSimulation::WorldsSimulation(uint64_t seed, BrokenRules broken)
    : seed_(seed), broken_(broken), random_(seed), now_(absl::UnixEpoch() + absl::Hours(1)) {
  const int jobs = 1 + static_cast<int>(Below(3));
  for (int i = 0; i < jobs; ++i) {
    auto job = std::make_unique<Job>();
    job->scope = absl::StrCat("jobs/", i / 2, "/worlds/", i);
    job->size = 1 + static_cast<int>(Below(5));
    job->min_size = Chance(0.3) ? 1 + static_cast<int>(Below(job->size)) : job->size;
    job->asks_ranks = Chance(0.7);
    job->restarts_all = Chance(0.4);
    job->at.resize(job->size);
    jobs_.push_back(std::move(job));
  }
}

WorldsSimulation::~WorldsSimulation() = default;

void WorldsSimulation::Run() {
  StartServer();
  for (auto& job : jobs_) {
    for (int place = 0; place < job->size; ++place) StartProcess(*job, place);
  }
  Chaos();
  Advance(now_ + kChaos);
  quiet_ = true;
  if (server_.registry == nullptr) StartServer();
  for (auto& client : clients_) {
    if (!client->stopped) continue;
    client->stopped = false;
    for (auto& run : std::exchange(client->inbox, {})) run();
  }
  Advance(now_ + kQuiet);
  CheckEnd();
  CheckRounds();
}

// ---- Time and chance.

void WorldsSimulation::At(absl::Time time, std::function<void()> run) {
  events_.push({std::max(time, now_), order_++, std::move(run)});
}

absl::Duration WorldsSimulation::Between(absl::Duration least, absl::Duration most) {
  return least + absl::Microseconds(Below(absl::ToInt64Microseconds(most - least) + 1));
}

// Of a message: now and then a long one.
absl::Duration WorldsSimulation::Delay() {
  const bool late = !quiet_ && Chance(0.02);
  return Between(absl::Microseconds(50), late ? absl::Seconds(3) : absl::Milliseconds(20));
}

void WorldsSimulation::Advance(absl::Time until) {
  while (violations_.empty()) {
    absl::Time tick = absl::InfiniteFuture();
    if (server_.registry != nullptr) {
      const absl::Time next = std::max(server_.registry->NextTime(), now_ + absl::Nanoseconds(1));
      const absl::Duration since = next - absl::UnixEpoch();
      if (next < absl::InfiniteFuture()) tick = absl::UnixEpoch() + absl::Ceil(since, kTick);
    }
    const absl::Time event = events_.empty() ? absl::InfiniteFuture() : events_.top().time;
    if (std::min(tick, event) > until) break;
    now_ = std::min(tick, event);
    if (event <= tick) {
      const std::function<void()> run = events_.top().run;
      events_.pop();
      run();
      continue;
    }
    AtServer([this](Actions& actions) { server_.registry->OnTime(now_, actions); });
    CheckDeadlines();
  }
  now_ = std::max(now_, std::min(until, absl::InfiniteFuture()));
}

// ---- The server.

void WorldsSimulation::StartServer() {
  ++server_.life;
  server_.registry = std::make_unique<Registry>(disk_.last_epoch, disk_.worlds, now_);
  server_.fences = std::make_unique<Fences>();
  for (const auto& [scope, world] : disk_.worlds) server_.fences->Set(scope, world.epoch);
}

void WorldsSimulation::CrashServer() {
  if (server_.registry == nullptr) return;
  ++counts_["server restarts"];
  ++server_.life;
  server_ = {.life = server_.life};
  for (auto& client : clients_) {
    if (client->session == 0 && client->waits == Client::Waits::kNothing) continue;
    const int connection = client->connection;
    After(Delay(), [this, each = client.get(), connection] {
      if (each->connection == connection) OnAway(*each);
    });
  }
  if (Chance(0.3)) {
    ++counts_["disks that went back"];
    disk_ = kept_;
    if (!broken_.no_leap) disk_ = {.last_epoch = EpochBeyond(disk_.last_epoch, now_)};
  }
  After(Between(absl::Milliseconds(10), absl::Seconds(3)), [this] {
    if (server_.registry == nullptr) StartServer();
  });
}

void WorldsSimulation::AtServer(std::function<void(Actions&)> call) {
  if (server_.registry == nullptr) return;
  Actions actions;
  call(actions);
  if (broken_.forgets_loss) RegistryTestPeer::ForgetLoss(*server_.registry);
  Perform(std::move(actions));
}

void WorldsSimulation::Perform(Actions actions) {
  for (Action& action : actions) {
    if (auto* answer = std::get_if<Answer>(&action)) {
      OnAnswer(*answer);
    } else if (auto* step = std::get_if<AnswerStep>(&action)) {
      const auto call = server_.calls.extract(step->call);
      if (call.empty()) continue;
      Client& client = *call.mapped();
      ToClient(client, [this, &client, id = step->call, step = step->agreed] {
        if (client.call == id) OnStep(client, step);
      });
    } else if (auto* formed = std::get_if<SendFormed>(&action)) {
      CheckFormed(*formed);
      const auto at = server_.sessions.find(formed->session);
      if (at == server_.sessions.end()) continue;
      Client& client = *at->second;
      ToClient(client, [this, &client, session = formed->session, world = formed->world,
                        rank = formed->rank] {
        if (client.session == session) OnFormed(client, world->epoch, rank, world->size);
      });
    } else if (auto* send = std::get_if<Send>(&action)) {
      const auto at = server_.sessions.find(send->session);
      if (at == server_.sessions.end() || !send->event.has_over()) continue;
      Client& client = *at->second;
      ToClient(client, [this, &client, session = send->session] {
        if (client.session == session) OnOver(client);
      });
    } else if (auto* end = std::get_if<EndSession>(&action)) {
      const auto session = server_.sessions.extract(end->session);
      if (session.empty()) continue;
      Client& client = *session.mapped();
      ToClient(client, [this, &client, end = *end] {
        if (client.session == end.session) OnStreamEnd(client, end.status);
      });
      After(Delay(), [this, id = end->session, life = server_.life] {
        if (server_.life != life) return;
        AtServer([&](Actions& more) { server_.registry->OnSessionEnd(id, now_, more); });
      });
    } else if (auto* save = std::get_if<SaveEpoch>(&action)) {
      Save(*save);
    } else if (auto* forget = std::get_if<ForgetScope>(&action)) {
      server_.fences->Forget(forget->scope);
      disk_.worlds.erase(forget->scope);
    } else if (auto* raised = std::get_if<RaiseEpoch>(&action)) {
      CheckRaised(*raised);
      if (!broken_.raises_late) {
        server_.fences->Set(raised->scope, raised->epoch);
        continue;
      }
      After(absl::Seconds(2), [this, raised = *raised, life = server_.life] {
        if (server_.life == life) server_.fences->Set(raised.scope, raised.epoch);
      });
    } else if (auto* ended = std::get_if<RoundEnded>(&action)) {
      ++counts_[absl::StrCat("rounds ", NameOf(ended->ending))];
    }
  }
}

// The disk writes in order: a save that the server waited for when it died may be there or not.
void WorldsSimulation::Save(const SaveEpoch& save) {
  const bool fails = !quiet_ && Chance(0.02);
  const absl::Duration takes =
      !quiet_ && Chance(0.1) ? Between(absl::ZeroDuration(), absl::Seconds(1)) : kTick;
  const int life = server_.life;
  disk_free_ = std::max(disk_free_, now_) + takes;
  At(disk_free_, [this, save, fails, life, survives = Chance(0.5)] {
    if (server_.life != life && !survives) return;
    if (!fails) {
      disk_.last_epoch = std::max(disk_.last_epoch, save.epoch);
      disk_.worlds[save.scope] = {.epoch = save.epoch, .size = save.size, .formed = now_};
    }
    if (server_.life != life || broken_.formed_before_disk) return;
    AtServer([&](Actions& actions) {
      const absl::Status status = fails ? absl::UnavailableError("disk") : absl::OkStatus();
      server_.registry->OnSaved(save.scope, status, now_, actions);
    });
  });
  if (!broken_.formed_before_disk) return;
  AtServer([&](Actions& actions) {
    server_.registry->OnSaved(save.scope, absl::OkStatus(), now_, actions);
  });
}

void WorldsSimulation::OnAnswer(const Answer& answer) {
  const auto call = server_.calls.extract(answer.call);
  server_.deadlines.erase(answer.call);
  if (call.empty()) return;
  Client& client = *call.mapped();
  ToClient(client, [this, &client, answer] {
    if (client.call == answer.call) OnResult(client, client.sequence, answer);
  });
}

void WorldsSimulation::CheckFormed(const SendFormed& formed) {
  const auto epoch = epochs_.find(formed.world->epoch);
  if (epoch == epochs_.end()) return Violate("Formed names an epoch that was never raised");
  const auto at = server_.sessions.find(formed.session);
  if (at == server_.sessions.end()) return;
  if (at->second->job->scope != epoch->second) Violate("Formed names another world's epoch");
  server_.epoch_of[formed.session] = formed.world->epoch;
  int64_t& highest = formed_[epoch->second];
  highest = std::max(highest, formed.world->epoch);
}

// The epoch is new, and no member of an earlier world is there any more.
void WorldsSimulation::CheckRaised(const RaiseEpoch& raised) {
  ++counts_["worlds"];
  const bool added = epochs_.emplace(raised.epoch, raised.scope).second;
  if (!added) Violate(absl::StrCat("epoch ", raised.epoch, " is given twice"));
  if (raised.epoch <= formed_[raised.scope]) Violate("an epoch does not rise");
  for (const auto& [session, client] : server_.sessions) {
    const auto epoch = server_.epoch_of.find(session);
    if (client->job->scope != raised.scope || epoch == server_.epoch_of.end()) continue;
    Violate(absl::StrCat("a living member of epoch ", epoch->second, " is displaced"));
  }
}

void WorldsSimulation::CheckDeadlines() {
  for (const auto& [call, deadline] : server_.deadlines) {
    if (now_ <= deadline + kTick || !server_.calls.contains(call)) continue;
    const std::string& scope = server_.calls.at(call)->job->scope;
    const auto listed = server_.registry->List(scope, "", 1).worlds;
    if (!listed.empty() && listed[0].phase() == v1::World::RETURNING) continue;
    Violate(absl::StrCat("a call waits ", absl::FormatDuration(now_ - deadline),
                         " beyond its deadline"));
  }
}

// What the process sends arrives, also when it has died since, unless its connection broke.
void WorldsSimulation::ToServer(Client& client, std::function<void(Actions&)> call) {
  const int life = server_.life;
  const bool lost = !quiet_ && Chance(0.5);  // if the connection breaks
  After(Delay(),
        [this, &client, life, lost, connection = client.connection, call = std::move(call)] {
          if (server_.registry == nullptr || server_.life != life) {
            if (client.connection != connection) return;
            After(Delay(), [this, &client, connection] {
              if (client.connection == connection) OnAway(client);
            });
            return;
          }
          if (client.connection != connection && lost) return;
          AtServer(call);
          if (client.connection != connection)
            EndStreams(client, Delay());  // of a message that came late
        });
}

// The server notices that streams of the process which it no longer knows of have ended.
void WorldsSimulation::EndStreams(Client& client, absl::Duration delay) {
  After(delay, [this, &client, life = server_.life] {
    if (server_.life != life) return;
    std::vector<SessionId> ended;
    for (const auto& [session, each] : server_.sessions) {
      if (each == &client && session != client.session) ended.push_back(session);
    }
    for (const SessionId session : ended) {
      server_.sessions.erase(session);
      AtServer([&](Actions& actions) { server_.registry->OnSessionEnd(session, now_, actions); });
    }
  });
}

// In order, unless the connection breaks first.
void WorldsSimulation::ToClient(Client& client, std::function<void()> run) {
  client.heard = std::max(client.heard, now_ + Delay());
  At(client.heard, [&client, connection = client.connection, run = std::move(run)] {
    if (!client.alive || client.connection != connection) return;
    if (client.stopped) {
      client.inbox.push_back(run);
    } else {
      run();
    }
  });
}

// ---- Processes.

void WorldsSimulation::OnClient(Client& client, absl::Duration delay, std::function<void()> run) {
  After(delay, [&client, run = std::move(run)] {
    if (!client.alive) return;
    if (client.stopped) {
      client.inbox.push_back(run);
    } else {
      run();
    }
  });
}

void WorldsSimulation::StartProcess(Job& job, int place) {
  if (place >= job.size || job.at[place] != nullptr) return;
  auto client = std::make_unique<Client>();
  client->id = next_id_++;
  client->job = &job;
  client->place = place;
  client->attempt = job.restarts_all ? job.attempt : 0;
  client->heard = now_;
  job.at[place] = client.get();
  clients_.push_back(std::move(client));
  Client& started = *clients_.back();
  OnClient(started, Between(absl::ZeroDuration(), absl::Seconds(1)),
           [this, &started] { JoinWorld(started); });
}

// A new ServerGroup of the process.
void WorldsSimulation::JoinWorld(Client& client) {
  client.nonce = absl::StrCat("nonce ", next_id_++);
  client.epoch = 0;
  client.in = client.over = client.has_agreed = false;
  client.sequence = 0;
  client.finished.clear();
  client.agreed.reset();
  client.waits = Client::Waits::kNothing;
  Open(client);
}

// Joins, or joins again.
void WorldsSimulation::Open(Client& client) {
  if (!client.alive || client.over) return;
  ++client.connection;
  client.session = next_id_++;
  const SessionId session = client.session;
  Process process{.nonce = client.nonce, .host = absl::StrCat("host-", client.place)};
  const Job& job = *client.job;
  if (client.epoch == 0) {
    Candidate candidate{.process = process,
                        .min_size = job.min_size,
                        .max_size = job.size,
                        .rank = job.asks_ranks ? client.place : -1,
                        .session = session,
                        .deadline = now_ + absl::Seconds(40)};
    ToServer(client, [this, &client, candidate](Actions& actions) {
      server_.sessions[candidate.session] = &client;
      const absl::Status status = server_.registry->Join(
          client.job->scope, absl::StrCat(client.attempt), candidate, now_, actions);
      if (!status.ok()) actions.push_back(EndSession{candidate.session, status});
    });
    return;
  }
  ++client.told;
  Returned returned{.process = process,
                    .epoch = client.epoch,
                    .rank = client.rank,
                    .size = client.size,
                    .finished = Told(client),
                    .agreed_step = client.agreed};
  ToServer(client, [this, &client, returned, session](Actions& actions) {
    server_.sessions[session] = &client;
    const absl::Status status =
        server_.registry->JoinAgain(client.job->scope, session, returned, now_, actions);
    if (!status.ok()) actions.push_back(EndSession{session, status});
    if (broken_.waits_for_no_one) {
      RegistryTestPeer::EndReturn(*server_.registry, client.job->scope);
    }
  });
}

// The connection breaks: each side notices when it does.
void WorldsSimulation::Cut(Client& client) {
  const bool silent = !quiet_ && Chance(0.2);
  const absl::Duration server = silent ? Between(absl::ZeroDuration(), kSilence) : Delay();
  const int life = server_.life;
  After(server,
        [this, life, session = client.session, call = client.call, scope = client.job->scope] {
          if (server_.life != life || server_.registry == nullptr) return;
          AtServer([&](Actions& actions) {
            if (server_.calls.erase(call) > 0) server_.registry->OnCallGone(scope, call);
            server_.deadlines.erase(call);
            server_.sessions.erase(session);
            server_.registry->OnSessionEnd(session, now_, actions);
          });
        });
  ++client.connection;
  client.session = 0;
}

void WorldsSimulation::Die(Client& client) {
  if (!client.alive) return;
  client.alive = false;
  Cut(client);
  Job& job = *client.job;
  if (job.at[client.place] == &client) job.at[client.place] = nullptr;
  if (!job.restarts_all || client.attempt != job.attempt) {
    return After(Between(absl::Milliseconds(100), absl::Seconds(3)),
                 [this, &job, place = client.place] { StartProcess(job, place); });
  }
  ++job.attempt;
  for (Client* const other : std::vector<Client*>(job.at)) {
    if (other != nullptr) Die(*other);
  }
  After(Between(absl::Milliseconds(100), absl::Seconds(2)), [this, &job] {
    for (int place = 0; place < job.size; ++place) StartProcess(job, place);
  });
}

// The connection is gone: joins again, and makes its call again.
void WorldsSimulation::OnAway(Client& client) {
  if (!client.alive) return;
  if (client.stopped) {
    client.inbox.push_back([this, &client] { OnAway(client); });
    return;
  }
  client.in = false;
  client.session = 0;
  ++client.connection;
  if (client.over) {  // an answer that may come no more
    if (client.waits == Client::Waits::kRound) Record(client, client.sequence, {"OVER", "", ""});
    if (client.waits != Client::Waits::kNothing) AfterWorld(client);
    return;
  }
  const int connection = client.connection;
  OnClient(client, Between(absl::Milliseconds(20), absl::Milliseconds(300)),
           [this, &client, connection] {
             if (client.connection == connection) Open(client);
           });
}

void WorldsSimulation::OnFormed(Client& client, int64_t epoch, int rank, int size) {
  client.taken_since.reset();
  client.in = true;
  if (client.epoch == 0) {
    client.epoch = epoch;
    client.rank = rank;
    client.size = size;
    Step(client);
    return;
  }
  if (client.epoch != epoch || client.rank != rank) Violate("a member is back in another world");
  if (client.waits != Client::Waits::kNothing) SendCall(client);
}

void WorldsSimulation::OnOver(Client& client) {
  client.over = true;
  if (client.waits == Client::Waits::kNothing) AfterWorld(client);
}

void WorldsSimulation::OnStreamEnd(Client& client, const absl::Status& status) {
  client.in = false;
  client.session = 0;
  if (client.over) {
    if (client.waits == Client::Waits::kRound) Record(client, client.sequence, {"OVER", "", ""});
    if (client.waits != Client::Waits::kNothing) AfterWorld(client);
    return;
  }
  const std::string reason = ReasonOf(status);
  if (absl::IsInvalidArgument(status) || absl::IsPermissionDenied(status)) {
    return Violate(absl::StrCat("an honest member is refused: ", status.ToString()));
  }
  const bool before = client.epoch == 0;
  if (before && reason == "RANK_TAKEN") {
    if (!client.taken_since) client.taken_since = now_;
    if (now_ >= *client.taken_since + kTakenPatience) return Die(client);
  } else if (before && reason == "WORLD_TIMEOUT") {
    return Die(client);
  } else if (!before && !absl::IsUnavailable(status) && !status.ok()) {
    // The world is over, or a later one has formed.
    if (client.waits == Client::Waits::kRound) Record(client, client.sequence, {"OVER", "", ""});
    client.over = true;
    return AfterWorld(client);
  }
  OnAway(client);
}

// The process goes on in a world of another epoch.
void WorldsSimulation::AfterWorld(Client& client) {
  client.waits = Client::Waits::kNothing;
  client.call = 0;
  if (client.job->restarts_all) return Die(client);
  ++client.connection;
  client.session = 0;
  OnClient(client, Between(absl::ZeroDuration(), absl::Milliseconds(500)),
           [this, &client, nonce = client.nonce] {
             if (client.nonce == nonce) JoinWorld(client);
           });
}

// What the process does next in its world.
void WorldsSimulation::Step(Client& client) {
  const bool lags = !quiet_ && Chance(0.03);
  const absl::Duration thinks =
      Between(absl::ZeroDuration(), lags ? absl::Seconds(20) : absl::Milliseconds(100));
  OnClient(client, thinks, [this, &client, nonce = client.nonce] {
    if (client.nonce != nonce || client.over) return;
    if (Chance(0.3)) Write(client);
    const uint64_t rounds = 3 + Mixed(seed_, client.epoch) % 40;
    if (client.sequence >= rounds || LeavesEarly(client)) return Leave(client);
    const bool agrees = client.sequence == rounds / 2 && !client.has_agreed;
    client.waits = agrees ? Client::Waits::kStep : Client::Waits::kRound;
    client.step = static_cast<int64_t>(Below(100));
    client.since = now_;
    client.give_up = now_ + Between(absl::Seconds(2), kLongestTimeout);
    SendCall(client);
  });
}

// A few processes leave while the others still need them.
bool WorldsSimulation::LeavesEarly(const Client& client) const {
  return Mixed(client.id, client.sequence + 1000) % 500 == 0;
}

// The call, or the same again.
void WorldsSimulation::SendCall(Client& client) {
  client.call = next_id_++;
  client.asked = client.told;
  const CallId call = client.call;
  const Caller caller{.scope = client.job->scope,
                      .epoch = client.epoch,
                      .rank = client.rank,
                      .nonce = client.nonce};
  const absl::Duration timeout = std::max(client.give_up - now_, absl::Milliseconds(1));
  if (client.waits == Client::Waits::kStep) {
    Epoch& epoch = history_[caller.scope][caller.epoch];
    if (!epoch.step) epoch.highest_step = std::max(epoch.highest_step, client.step);
    return ToServer(
        client, [this, &client, call, caller, step = client.step, timeout](Actions& actions) {
          server_.calls[call] = &client;
          server_.registry->AgreeStep(call, caller, step, now_ + timeout, now_, actions);
        });
  }
  ToServer(client, [this, &client, call, caller, timeout, sequence = client.sequence,
                    contribution = ContributionOf(client, client.sequence)](Actions& actions) {
    server_.calls[call] = &client;
    server_.deadlines[call] = now_ + timeout;
    server_.registry->Exchange(call, caller, sequence, contribution, now_ + timeout, now_, actions);
  });
}

// The same however often it is asked; a few members are at other calls, or have other values.
Contribution WorldsSimulation::ContributionOf(const Client& client, uint64_t sequence) const {
  const uint64_t chance = Mixed(client.id, sequence);
  const std::string again = broken_.other_payloads ? absl::StrCat(" ", server_.life) : "";
  Contribution contribution;
  contribution.name = absl::StrCat("round ", sequence, chance % 50 == 0 ? " of another" : "");
  contribution.mode = static_cast<Mode>(sequence % 4);
  if (contribution.mode == Mode::kAgree) {
    const char value = chance % 50 == 1 ? 'b' : 'a';
    contribution.payload = absl::Cord(std::string(kDigestBytes, 's') + std::string(16, value));
  } else if (contribution.mode == Mode::kBroadcast) {
    contribution.root = static_cast<int>(sequence % client.size);
    if (contribution.root == client.rank) contribution.payload = absl::Cord(client.nonce + again);
  } else if (contribution.mode == Mode::kGather) {
    contribution.root = static_cast<int>(sequence / 4 % (client.size + 1)) - 1;
    contribution.payload = absl::Cord(absl::StrCat(client.nonce, " in ", sequence, again));
  }
  return contribution;
}

std::vector<Finished> WorldsSimulation::Told(const Client& client) const {
  std::vector<Finished> told = client.finished;
  if (broken_.last_round_only && told.size() > 1) told = {told.back()};
  for (Finished& each : told) {
    if (broken_.no_digests) each.digest.clear();
    if (broken_.other_payloads && each.outcome.ending == Ending::kOk) {
      each.contribution = ContributionOf(client, each.sequence);
    }
  }
  return told;
}

void WorldsSimulation::OnResult(Client& client, uint64_t sequence, const Answer& answer) {
  if (const auto* refused = std::get_if<absl::Status>(&answer.with)) {
    const std::string reason = ReasonOf(*refused);
    if (reason == "JOIN_AGAIN" || reason == "CALLED_AGAIN") {  // OnFormed() may send it again
      if (client.in)
        OnClient(client, absl::Milliseconds(100), [this, &client, id = answer.call] {
          if (client.call == id && client.in) SendCall(client);
        });
      return;
    }
    if (reason != "STALE_EPOCH" && !EndsWorld(reason)) {
      return Violate(absl::StrCat("an honest call is refused: ", refused->ToString()));
    }
    Record(client, sequence, {"OVER", "", ""});
    client.over = true;
    return AfterWorld(client);
  }
  // It has told that it lacks this outcome, and others count on that: it asks again.
  if (client.asked != client.told) {
    if (client.in) SendCall(client);
    return;
  }
  const Outcome& outcome = *std::get<SharedOutcome>(answer.with);
  const std::string ending = NameOf(outcome.ending);
  std::string payload;
  for (const absl::Cord& each : outcome.payloads) absl::StrAppend(&payload, std::string(each), ";");
  const bool ok = outcome.ending == Ending::kOk;
  Record(client, sequence, {ending, ok ? answer.digest : outcome.message, payload});
  client.waits = Client::Waits::kNothing;
  client.call = 0;
  if (EndsWorld(ending)) {
    client.over = true;
    return AfterWorld(client);
  }
  if (ok) client.finished.clear();
  Outcome told = outcome;
  told.payloads.clear();
  told.to = -1;
  client.finished.push_back(
      {.sequence = sequence,
       .outcome = std::move(told),
       .digest = answer.digest,
       .contribution = ok ? ContributionOf(client, sequence) : Contribution()});
  ++client.sequence;
  if (ok) client.job->last_ok = now_;
  if (client.over) return AfterWorld(client);
  Step(client);
}

void WorldsSimulation::OnStep(Client& client, const absl::StatusOr<AgreedStep>& step) {
  const std::string reason = step.ok() ? "OK" : ReasonOf(step.status());
  if (reason == "JOIN_AGAIN" || reason == "CALLED_AGAIN") {
    if (client.in)
      OnClient(client, absl::Milliseconds(100), [this, &client, id = client.call] {
        if (client.call == id && client.in) SendCall(client);
      });
    return;
  }
  if (client.asked != client.told) {
    if (client.in) SendCall(client);
    return;
  }
  ++counts_[absl::StrCat("steps ", reason)];
  client.waits = Client::Waits::kNothing;
  client.call = 0;
  client.has_agreed = true;
  if (step.ok()) {
    Epoch& epoch = history_[client.job->scope][client.epoch];
    if (!epoch.step) epoch.step = step->step;
    if (*epoch.step != step->step) Violate("members agree on different steps");
    if (step->step <= client.step) Violate("a member is beyond the step that it agreed on");
    client.agreed = step->step;
  }
  const bool over = EndsWorld(reason) || reason == "STALE_EPOCH";
  client.over = client.over || over;
  if (client.over) return AfterWorld(client);
  Step(client);
}

void WorldsSimulation::Record(Client& client, uint64_t sequence, Result result) {
  ++counts_[absl::StrCat("results ", result.ending)];
  if (result.ending == "RESULTS_DIFFER" && !broken_.other_payloads) {
    Violate("results of honest members differ");
  }
  history_[client.job->scope][client.epoch].rounds[sequence].results[client.rank] =
      std::move(result);
}

// Leaves, and ends.
void WorldsSimulation::Leave(Client& client) {
  ++counts_["leaves"];
  const Caller caller{.scope = client.job->scope,
                      .epoch = client.epoch,
                      .rank = client.rank,
                      .nonce = client.nonce};
  ToServer(client, [this, caller](Actions& actions) {
    (void)server_.registry->Leave(caller, now_, actions);
  });
  OnClient(client, Between(absl::Milliseconds(20), absl::Milliseconds(200)),
           [this, &client] { Die(client); });
}

// A change of a state, which takes effect when its turn comes.
void WorldsSimulation::Write(Client& client) {
  const absl::Duration waits = Chance(0.1) ? absl::Seconds(5) : absl::Milliseconds(30);
  After(Between(absl::ZeroDuration(), waits),
        [this, scope = client.job->scope, epoch = client.epoch] {
          if (server_.registry == nullptr) return;
          const bool passes = server_.fences->CheckFence(scope, epoch).ok();
          ++counts_[passes ? "writes that pass" : "writes that are refused"];
          if (passes && formed_[scope] > epoch) {
            Violate(absl::StrCat("a write of epoch ", epoch, " passes after world ", formed_[scope],
                                 " has formed"));
          }
        });
}

// ---- Faults, and what must be true in the end.

void WorldsSimulation::Chaos() {
  if (quiet_) return;
  const absl::Duration pause = Between(absl::Milliseconds(50), absl::Seconds(2));
  After(pause, [this] { Chaos(); });
  if (clients_.empty()) return;
  Client& client = *clients_[Below(clients_.size())];
  switch (Below(12)) {
    case 0:
    case 1:
      if (client.alive) ++counts_["deaths"];
      return Die(client);
    case 2:
      return CrashServer();
    case 3:
    case 4:
      if (!client.alive || client.session == 0) return;
      ++counts_["connections that break"];
      Cut(client);
      return OnClient(client, Delay(), [this, &client, connection = client.connection] {
        if (client.connection == connection) OnAway(client);
      });
    case 5: {
      if (!client.alive || client.stopped) return;
      ++counts_["stops"];
      client.stopped = true;
      const absl::Duration time = Between(absl::ZeroDuration(), absl::Seconds(20));
      if (time > kSilence) {
        After(kSilence, [this, &client] {
          if (!client.alive || !client.stopped) return;
          Cut(client);
          client.inbox.push_back([this, &client] { OnAway(client); });
        });
      }
      return After(time, [&client] {
        client.stopped = false;
        for (auto& run : std::exchange(client.inbox, {})) run();
      });
    }
    case 6:
      kept_ = disk_;
      return;
    case 7:
      return AtServer([&](Actions& actions) {
        v1::WorldEvent::Preempt preempt;
        preempt.set_next_size(1 + static_cast<int>(Below(4)));
        (void)server_.registry->Preempt(client.job->scope, 0, preempt, now_, actions);
      });
    case 8:  // forged calls
      return AtServer([&](Actions& actions) {
        const Caller caller{.scope = client.job->scope,
                            .epoch = client.epoch,
                            .rank = static_cast<int>(Below(6)) - 1,
                            .nonce = "forged"};
        const CallId call = next_id_++;
        server_.registry->Exchange(call, caller, Below(3), {.name = "forged"},
                                   now_ + absl::Seconds(1), now_, actions);
        (void)server_.registry->Leave(caller, now_, actions);
      });
    default:
      return;
  }
}

void WorldsSimulation::CheckEnd() {
  if (!violations_.empty()) return;
  for (const auto& job : jobs_) {
    if (job->last_ok < now_ - absl::Seconds(50)) {
      Violate(absl::StrCat(job->scope, " is stuck: no round has ended well for ",
                           absl::FormatDuration(now_ - job->last_ok), ShownWorlds()));
    }
  }
  for (const auto& client : clients_) {
    const bool waits = client->alive && client->waits != Client::Waits::kNothing;
    if (waits && now_ - client->since > absl::Seconds(50)) Violate("a call is stuck");
  }
  // Nothing is kept of what is over.
  for (const auto& job : jobs_) job->size = 0;  // no more processes are started
  for (const auto& client : clients_) Die(*client);
  Advance(now_ + absl::Seconds(60) + kAskAgainTime);
  if (server_.registry->sessions() > 0) Violate("sessions stay");
  if (server_.registry->held() > 0) Violate("payloads stay");
  Advance(now_ + kForgetAfter);
  if (!server_.registry->List("", "", 100).worlds.empty()) Violate("worlds stay");
  if (!disk_.worlds.empty()) Violate("worlds stay on the disk");
}

void WorldsSimulation::CheckRounds() {
  for (const auto& [scope, epochs] : history_) {
    for (const auto& [number, epoch] : epochs) {
      uint64_t last_ok = 0;
      for (const auto& [sequence, round] : epoch.rounds) {
        for (const auto& [rank, result] : round.results) {
          if (result.ending == "OK") last_ok = sequence;
        }
      }
      for (const auto& [sequence, round] : epoch.rounds) {
        const std::string where = absl::StrCat(scope, " epoch ", number, " round ", sequence, ": ");
        const Result* first = nullptr;
        for (const auto& [rank, result] : round.results) {
          if (EndsWorld(result.ending)) {
            if (sequence < last_ok) Violate(where + "ends the world, but a later one is OK");
            continue;
          }
          if (first == nullptr) first = &result;
          if (result.ending != first->ending || result.what != first->what) {
            Violate(absl::StrCat(where, first->ending, " for one, ", result.ending,
                                 " for another, or not the same"));
          }
        }
        std::set<std::string> payloads;
        for (const auto& [rank, result] : round.results) {
          if (!result.payload.empty()) payloads.insert(result.payload);
        }
        if (payloads.size() > 1) Violate(where + "members have different payloads");
      }
    }
  }
}

std::string WorldsSimulation::ShownWorlds() const {
  std::string shown;
  for (const v1::World& world : server_.registry->List("", "", 100).worlds) {
    absl::StrAppend(&shown, "; ", world.ShortDebugString());
  }
  return shown;
}

void WorldsSimulation::Violate(const std::string& what) {
  violations_.push_back(absl::StrCat("seed ", seed_, ", ",
                                     absl::FormatDuration(now_ - absl::UnixEpoch()), ": ", what));
}

}  // namespace remesh::server::coordination
