// SPDX-License-Identifier: Apache-2.0
// What events cost among many hosts, in counts: never in times.
#include "absl/strings/str_cat.h"
#include "server/controller/testing/controller_moves_test_world.h"

namespace remesh::server {
namespace {

// State s on many hosts.
class ControllerFleetTest : public ControllerMovesTest {
 protected:
  static constexpr int kFew = 64;
  static constexpr int kMany = 512;

  void SetUp() override {}

  // A new server, and so many hosts with their shards sealed.
  void AttachFleet(int hosts) {
    disk_.clear();
    StartServer();
    names_ = {"a", "b"};  // of which each move of the world takes part
    while (std::ssize(names_) < hosts) names_.push_back(absl::StrCat("host-", names_.size()));
    AttachAll({});
    uid_ = Create(names_).uid();
    for (const StreamId stream : streams_) Seal(stream, Manifest(uid_, 1));
  }
  void AttachAll(const std::vector<v1::StateManifest>& manifests) {
    streams_.clear();
    for (size_t i = 0; i < names_.size(); ++i) {
      v1::Register registration = Identity(names_[i]);
      registration.mutable_devices(0)->set_id(static_cast<int64_t>(i));
      *registration.mutable_manifests() = {manifests.begin(), manifests.end()};
      streams_.push_back(Attach(registration));
    }
  }
  // Moves the state to generation 2. Returns the execution's name.
  std::string Move() {
    const std::string name = StartMove(1, kState, names_);
    using Event = v1::AttachRequest;
    for (const auto kind : {Event::kPrepared, Event::kVerified, Event::kCommitted}) {
      for (const StreamId stream : streams_) Answer(stream, kind, name);
    }
    EXPECT_EQ(Phase(name), v1::Execution::SUCCEEDED);
    return name;
  }
  // How often a host is looked up for each host while `what` happens.
  template <typename What>
  double FindsOf(What what) {
    const int64_t before = controller_->host_finds();
    what();
    return static_cast<double>(controller_->host_finds() - before) /
           static_cast<double>(names_.size());
  }

  std::vector<std::string> names_;
  std::vector<StreamId> streams_;
};

TEST_F(ControllerFleetTest, AMoveCostsEachHostTheSameAmongAnyNumber) {
  AttachFleet(kFew);
  const double few = FindsOf([this] { Move(); });
  AttachFleet(kMany);
  EXPECT_LE(FindsOf([this] { Move(); }), few + 1);
}

// Regression: of a server that was killed before hosts had freed the generation before, each host
// that came back had all hosts that were back looked up. 16,384 did not come back in minutes.
TEST_F(ControllerFleetTest, AHostThatComesBackCostsTheSameAmongAnyNumber) {
  const auto comes_back = [this](int hosts) {
    AttachFleet(hosts);
    const std::string name = Move();
    StartServer();
    const double finds = FindsOf([&] { AttachAll({Manifest(uid_, 1), Written(2, name)}); });
    EXPECT_EQ(Get().phase(), v1::State::READY);
    EXPECT_EQ(Count(streams_.front(), Command::kRetire), 1) << "once all were back";
    return finds;
  };
  const double few = comes_back(kFew);
  EXPECT_LE(comes_back(kMany), few + 1);
}

}  // namespace
}  // namespace remesh::server
