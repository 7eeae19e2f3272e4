// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/harness.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace remesh::worker::conformance {
namespace {}  // namespace

std::vector<std::byte> Pattern(size_t size, uint32_t seed) {
  std::vector<std::byte> bytes(size);
  uint32_t state = seed * 2654435761u + 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

VictimRole::VictimRole(Transport& transport, const std::vector<Peer>& peers)
    : greeting_(Pattern(kGreetingBytes, 0)), bulk_(kBulkBytes), sink_(kBulkBytes) {
  auto group = transport.Open(1, peers);
  REMESH_CHECK(group.ok());
  group_ = *std::move(group);
  auto ignore = [](absl::Status) {};
  group_->Send(0, MessageTag{}, greeting_, ignore);
  group_->Send(0, MessageTag{.index = 1}, bulk_, ignore);
  group_->Receive(0, MessageTag{.index = 2}, sink_, ignore);
}

VictimRole::~VictimRole() = default;

Mesh::Mesh(World& world, int size) {
  for (int i = 0; i < size; ++i) transports_.push_back(world.NewTransport());
}

Mesh::~Mesh() {
  for (auto& [key, group] : groups_) group->Abort();
  EXPECT_TRUE(ProgressUntil([&] {
    for (auto& [key, group] : groups_) {
      if (!group->quiesced()) return false;
    }
    return true;
  })) << "a group does not come to rest";
  for (const auto& outcome : outcomes_) {
    EXPECT_EQ(outcome->calls, 1);
    EXPECT_TRUE(outcome->inside_progress);
  }
}

std::vector<Peer> Mesh::Table(int salt) const {
  std::vector<Peer> table;
  for (size_t i = 0; i < transports_.size(); ++i) {
    std::string token = absl::StrCat("token-", salt, "-", i);
    token.resize(16, '.');
    table.push_back({transports_[i]->address(), token});
  }
  return table;
}

PeerGroup& Mesh::Open(int host, const std::string& name, std::vector<Peer> table) {
  auto group = transports_[host]->Open(host, std::move(table));
  REMESH_CHECK(group.ok());
  return *(groups_[{host, name}] = *std::move(group));
}

void Mesh::OpenAll(const std::string& name, int salt) {
  for (size_t i = 0; i < transports_.size(); ++i) Open(static_cast<int>(i), name, Table(salt));
}

Outcome* Mesh::NewOutcome() { return outcomes_.emplace_back(std::make_unique<Outcome>()).get(); }

PeerGroup::Done Mesh::Watch(int host, Outcome* outcome, std::function<void()> then) {
  return [this, host, outcome, then = std::move(then)](absl::Status status) {
    ++outcome->calls;
    outcome->inside_progress = progressing_ == host;
    outcome->status = std::move(status);
    if (then) then();
  };
}

Outcome* Mesh::Send(int from, int to, const MessageTag& tag, std::span<const std::byte> data,
                    const std::string& name) {
  Outcome* outcome = NewOutcome();
  group(from, name).Send(to, tag, data, Watch(from, outcome));
  return outcome;
}

Outcome* Mesh::Receive(int at, int from, const MessageTag& tag, std::span<std::byte> buffer,
                       const std::string& name) {
  Outcome* outcome = NewOutcome();
  group(at, name).Receive(from, tag, buffer, Watch(at, outcome));
  return outcome;
}

bool Mesh::Progress() {
  bool any = false;
  for (size_t i = 0; i < transports_.size(); ++i) {
    progressing_ = static_cast<int>(i);
    any |= transports_[i]->Progress();
    progressing_ = -1;
  }
  return any;
}

void Mesh::ProgressTimes(int rounds) {
  for (int i = 0; i < rounds; ++i) Progress();
}

bool Mesh::ProgressUntil(const std::function<bool()>& done, const std::function<void()>& each) {
  const auto progress = [&] {
    if (each) each();
    return Progress();
  };
  return conformance::ProgressUntil(progress, done);
}

bool ProgressUntil(const std::function<bool()>& progress, const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    if (!progress()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

bool Mesh::Finish(const std::vector<Outcome*>& outcomes) {
  return ProgressUntil([&] {
    for (const Outcome* outcome : outcomes) {
      if (!outcome->done()) return false;
    }
    return true;
  });
}

}  // namespace remesh::worker::conformance
