// SPDX-License-Identifier: Apache-2.0
// The network of WorldsSimulation: what is on its way between processes and the server.
#include <algorithm>
#include <utility>

#include "server/coordination/testing/worlds_simulation.h"

namespace remesh::server::coordination {

// Of a message: now and then a long one.
absl::Duration WorldsSimulation::Delay() {
  const bool late = Fault(0.02);
  return schedule_.Between(absl::Microseconds(50),
                           late ? absl::Seconds(3) : absl::Milliseconds(20));
}

// What the process sends arrives, also when it has died since, unless its connection broke.
void WorldsSimulation::ToServer(Process& process, std::function<void(Actions&)> call) {
  const int life = server_.life();
  const int connection = process.connection;
  const bool lost = Fault(0.5);  // if the connection breaks
  After(Delay(), [this, &process, life, lost, connection, call = std::move(call)] {
    const bool cut = process.connection != connection;
    if (!server_.runs() || server_.life() != life) {
      if (cut) return;
      return After(Delay(), [this, &process, connection] {
        if (process.connection == connection) OnAway(process);
      });
    }
    if (cut && lost) return;
    server_.Do(call);
    if (process.connection != connection) EndStreams(process, Delay());  // it came late
  });
}

// The server notices that streams of the process which it no longer knows of have ended.
void WorldsSimulation::EndStreams(Process& process, absl::Duration delay) {
  After(delay, [this, &process, life = server_.life()] {
    if (server_.life() == life) server_.EndOtherStreams(process);
  });
}

// In order, unless the connection breaks first.
void WorldsSimulation::ToProcess(Process& process, std::function<void()> run) {
  process.heard = std::max(process.heard, schedule_.now() + Delay());
  schedule_.At(process.heard, [&process, connection = process.connection, run = std::move(run)] {
    if (process.connection == connection) process.Run(run);
  });
}

// What the server answers or sends, if the process still waits for it when it arrives.
void WorldsSimulation::Send(Process& process, const Action& action) {
  ToProcess(process, [this, &process, action] {
    if (const auto* answer = std::get_if<Answer>(&action)) {
      if (process.call == answer->call) OnResult(process, process.sequence, *answer);
    } else if (const auto* step = std::get_if<AnswerStep>(&action)) {
      if (process.call == step->call) OnStep(process, step->agreed);
    } else if (const auto* formed = std::get_if<SendFormed>(&action)) {
      const FormedWorld& world = *formed->world;
      if (process.session != formed->session) return;
      OnFormed(process, world.epoch, formed->rank, world.size);
    } else if (const auto* send = std::get_if<coordination::Send>(&action)) {
      if (process.session == send->session) OnOver(process);
    } else if (const auto* end = std::get_if<EndSession>(&action)) {
      if (process.session == end->session) OnStreamEnd(process, end->status);
    }
  });
}

// The connection breaks: each side notices when it does.
void WorldsSimulation::Cut(Process& process) {
  const bool silent = Fault(0.2);
  const absl::Duration delay = silent ? schedule_.Between(absl::ZeroDuration(), kSilence) : Delay();
  After(delay, [this, life = server_.life(), session = process.session, call = process.call,
                scope = process.job->scope] {
    if (server_.life() == life) server_.OnCut(session, call, scope);
  });
  ++process.connection;
  process.session = 0;
}

}  // namespace remesh::server::coordination
