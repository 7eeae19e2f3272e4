// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/transport_conformance.h"

namespace remesh::worker::conformance {

// How long a test waits for what must happen.
inline constexpr auto kPatience = std::chrono::seconds(20);

// How an operation ended, and whether it kept to the rules: once, and inside its own transport's
// Progress().
struct Outcome {
  int calls = 0;
  bool inside_progress = true;
  absl::Status status;

  bool done() const { return calls > 0; }
  bool ok() const { return done() && status.ok(); }
  absl::StatusCode code() const { return done() ? status.code() : absl::StatusCode::kUnknown; }
};

// Some transports of a world, driven in turn by the test's thread, with groups that span them.
class Mesh {
 public:
  Mesh(World& world, int size);
  // Aborts and drains every group, then checks that every operation ended exactly once.
  ~Mesh();

  Transport& transport(int host) { return *transports_[host]; }
  std::string address(int host) const { return transports_[host]->address(); }
  // The table of an attempt in which all take part; another `salt` makes another attempt.
  std::vector<Peer> Table(int salt = 1) const;

  // Opens `host`'s group `name`.
  PeerGroup& Open(int host, const std::string& name, std::vector<Peer> table);
  void OpenAll(const std::string& name, int salt = 1);
  PeerGroup& group(int host, const std::string& name = "g") { return *groups_.at({host, name}); }
  void Abort(int host, const std::string& name = "g") { group(host, name).Abort(); }

  Outcome* Send(int from, int to, const MessageTag& tag, std::span<const std::byte> data,
                const std::string& name = "g");
  Outcome* Receive(int at, int from, const MessageTag& tag, std::span<std::byte> buffer,
                   const std::string& name = "g");
  // A callback for operations of `host` that reports to the outcome.
  PeerGroup::Done Watch(int host, Outcome* outcome, std::function<void()> then = nullptr);
  Outcome* NewOutcome();

  // Drives every transport once; whether anything happened.
  bool Progress();
  void ProgressTimes(int rounds);
  // Until `done` or 20 s have passed; whether `done`. `each` runs every round.
  bool ProgressUntil(const std::function<bool()>& done,
                     const std::function<void()>& each = nullptr);
  bool Finish(const std::vector<Outcome*>& outcomes);

 private:
  std::vector<std::unique_ptr<Transport>> transports_;
  std::map<std::pair<int, std::string>, std::unique_ptr<PeerGroup>> groups_;
  std::vector<std::unique_ptr<Outcome>> outcomes_;
  int progressing_ = -1;  // the host whose Progress() runs
};

// Calls `progress`, which returns whether anything happened, until `done` or 20 s have passed.
// Returns whether `done`.
bool ProgressUntil(const std::function<bool()>& progress, const std::function<bool()>& done);

inline MessageTag Tag(uint32_t index) { return MessageTag{7, 1, 2, index}; }

}  // namespace remesh::worker::conformance
