// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "server/controller/controller.h"
#include "tests/fuzz/inputs.pb.h"

namespace remesh::fuzz {

// The real controller, with a journal that is a map, and whatever an input says that workers and
// callers do. What must hold: no crash, nothing is sent into closed streams, no call is answered
// twice, and what was written can be read again.
class ControllerWorld {
 public:
  explicit ControllerWorld(std::map<std::string, std::string> disk) : disk_(std::move(disk)) {}

  // A life of the server from what is on disk. The error is that of the journal.
  absl::Status Start();
  void Do(const Step& step);

 private:
  void Handle(server::Event event);
  void Take(server::Actions actions);
  void Take(server::Action& action);
  void Send(const Step::Said& said);
  void Operate(const Step& step);
  void Create(const v1::CreateStateRequest& request);
  void Plan(const Step::Planned& planned);
  void Write(uint32_t writes);
  void Ask(server::Request request);

  std::map<std::string, std::string> disk_;
  std::unique_ptr<server::Controller> controller_;
  server::Moment now_{.steady = std::chrono::seconds(1), .wall = absl::UnixEpoch()};
  uint64_t random_ = 0;
  std::deque<server::Persist> pending_;
  std::deque<server::StartPlanning> questions_;
  std::map<uint32_t, server::StreamId> streams_;  // those that are open, by the input's numbers
  server::StreamId last_stream_ = 0;
  server::CallId last_call_ = 0;
  std::set<server::CallId> waiting_;
  std::optional<v1::AttemptId> last_attempt_;
  std::string last_uid_, last_execution_;
};

// What PlaceState() makes of `spec`, if that is not much.
absl::StatusOr<std::shared_ptr<const server::PlacedState>> PlaceSmall(const v1::StateSpec& spec);

}  // namespace remesh::fuzz
