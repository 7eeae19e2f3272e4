// SPDX-License-Identifier: Apache-2.0
// Membership, parked streams and commands, without states and executions.
#include <gmock/gmock.h>

#include "server/controller/membership/parked_streams.h"
#include "server/controller/testing/membership_test_world.h"

namespace remesh::server {
namespace {

class MembershipTest : public MembershipTestWorld {
 protected:
  // A host whose NICs have a quarter of the sum that all NICs may have.
  static v1::Register Endless(const std::string& host) {
    v1::Register registration = Registration(host);
    registration.clear_devices();
    for (int i = 0; i < 4096; ++i) registration.add_devices()->set_id(host[0] * 4096 + i);
    registration.set_nics(4096);
    registration.set_nic_bytes_per_second(1e300);
    return registration;
  }
};

TEST_F(MembershipTest, AnUnknownHostThatLeavesIsForgottenWithWhatItHeld) {
  v1::Register registration = Registration("a");
  *registration.add_manifests() = Manifest("jobs/j/states/s", "u", 1);
  Attach(registration);
  const HostFacts facts = membership_.EndStream(1, now_, out_);
  ASSERT_EQ(facts.size(), 2u);
  EXPECT_EQ(GetErrorInfo(std::get<HostAway>(facts[0]).why).reason, "WORKER_LOST");
  EXPECT_EQ(std::get<HostForgotten>(facts[1]).held.size(), 1u);
  EXPECT_FALSE(membership_.knows("a"));
  EXPECT_EQ(membership_.workers().Find("a"), nullptr);
}

// Regression: nothing showed that there had been a worker.
TEST_F(MembershipTest, AWorkerThatLeavesWithNothingIsShownForAnHour) {
  Attach("a");
  membership_.EndStream(1, now_, out_);
  ASSERT_EQ(membership_.departed().workers().size(), 1u);
  const v1::Worker& shown = membership_.departed().workers().at("a").shown;
  EXPECT_EQ(shown.name(), "workers/a");
  EXPECT_EQ(shown.phase(), v1::Worker::AWAY);
  EXPECT_FALSE(shown.alive());
  EXPECT_TRUE(shown.has_last_heartbeat_time());
  now_.steady += DepartedWorkers::kKept;
  membership_.ExpireDeparted(now_);
  EXPECT_EQ(membership_.departed().workers().size(), 1u);
  now_.steady += std::chrono::seconds(1);
  membership_.ExpireDeparted(now_);
  EXPECT_TRUE(membership_.departed().workers().empty());
}

TEST_F(MembershipTest, AWorkerThatComesBackIsNotAway) {
  Attach("a");
  membership_.EndStream(1, now_, out_);
  Attach("a");
  EXPECT_TRUE(membership_.departed().workers().empty());
}

// Anyone may attach under any name.
TEST_F(MembershipTest, OnlyTheLastThatLeftAreShown) {
  DepartedWorkers departed;
  WorkerEntry worker;
  for (size_t i = 0; i < DepartedWorkers::kMost + 5; ++i) {
    worker.registration.set_host(absl::StrCat("h", i));
    worker.registration.add_data_addresses()->set_address(std::string(4096, 'x'));
    departed.Add(worker, Timestamp(static_cast<int64_t>(i)));
  }
  EXPECT_EQ(departed.workers().size(), DepartedWorkers::kMost);
  EXPECT_FALSE(departed.workers().contains("h4"));
  EXPECT_TRUE(departed.workers().contains("h5"));
  EXPECT_LT(departed.workers().at("h5").shown.ByteSizeLong(), 200u) << "little is kept of each";
}

TEST_F(MembershipTest, AHostThatIsReliedOnStaysKnown) {
  Attach("a");
  EXPECT_EQ(membership_.Keep({"a", "b"}).size(), 1u);  // b is unknown
  EXPECT_TRUE(membership_.Keep({"a"}).empty());
  EXPECT_EQ(membership_.EndStream(1, now_, out_).size(), 1u);
  EXPECT_TRUE(membership_.durable("a"));
  EXPECT_FALSE(membership_.workers().alive("a"));
}

TEST_F(MembershipTest, AnUnknownHostMakesWayForOneThatProvesItself) {
  Attach("a");
  membership_.Keep({"a"});
  membership_.EndStream(1, now_, out_);
  v1::Register thief = Registration("t");
  thief.mutable_devices(0)->set_id('x');
  Attach(thief);
  v1::Register back = Registration("a");
  back.mutable_devices(0)->set_id('x');
  const HostFacts facts = Attach(back);
  ASSERT_EQ(facts.size(), 3u);  // t is away, t is forgotten, a attached again
  EXPECT_EQ(std::get<HostAway>(facts[0]).host, "t");
  EXPECT_EQ(std::get<HostForgotten>(facts[1]).host, "t");
  EXPECT_EQ(std::get<HostAway>(facts[2]).host, "a");
}

TEST_F(MembershipTest, OnlyHostsThatChangeAreToldToTheTopology) {
  Attach("a");
  membership_.Keep({"a"});
  EXPECT_EQ(Did<TopologyChanged>().size(), 1u);
  Clear();
  Attach("a");
  membership_.EndStream(2, now_, out_);
  Attach("a");
  EXPECT_TRUE(Did<TopologyChanged>().empty());
  v1::Register faster = Registration("a");
  faster.set_nics(2);
  Attach(faster);
  ASSERT_EQ(Did<TopologyChanged>().size(), 1u);
  EXPECT_EQ(Did<TopologyChanged>()[0].hosts[0].nics, 2);
  Clear();
  Attach("b");
  ASSERT_EQ(Did<TopologyChanged>().size(), 1u);
  ASSERT_EQ(Did<TopologyChanged>()[0].hosts.size(), 1u) << "no other host is touched";
  EXPECT_EQ(Did<TopologyChanged>()[0].hosts[0].name, "b");
  Clear();
  membership_.EndStream(last_stream_, now_, out_);  // b was never relied on
  ASSERT_EQ(Did<TopologyChanged>().size(), 1u);
  EXPECT_EQ(Did<TopologyChanged>()[0].gone, std::vector<std::string>{"b"});
}

// Regression: 10,000 workers needed 24 s to attach to a restarted server, and those that still
// waited in line after lost_after counted as lost.
TEST_F(MembershipTest, NoHostIsLostWhileOthersStillComeBack) {
  Restored restored;
  for (const char* host : {"a", "b", "c", "d", "e"}) restored.hosts[host] = {};
  membership_.Restore(restored, now_);
  const Timestamp nearly = options_.lost_after - std::chrono::milliseconds(1);
  now_.steady += nearly;
  Attach("a");
  now_.steady += nearly;
  Attach("b");
  now_.steady += nearly;
  EXPECT_THAT(membership_.AwaitedHosts(now_), testing::ElementsAre("c", "d", "e"));
  Attach("a");  // again: it says nothing about others
  now_.steady += std::chrono::milliseconds(2);
  EXPECT_THAT(membership_.AwaitedHosts(now_), testing::IsEmpty()) << "they are lost";
  Attach("c");
  EXPECT_THAT(membership_.AwaitedHosts(now_), testing::ElementsAre("d", "e"));
  now_.steady += Membership::kReturnsMax * options_.lost_after - 3 * nearly;
  Attach("d");
  EXPECT_THAT(membership_.AwaitedHosts(now_), testing::IsEmpty()) << "not forever";
}

// Regression: five such hosts made a topology on which nothing could be planned, and states on it
// that no later life of the server could read.
TEST_F(MembershipTest, AHostThatBringsAllNicsAboveTheirSumIsRefused) {
  for (const char* host : {"a", "b"}) {
    HostFacts facts;
    ASSERT_TRUE(membership_.Enrol(Endless(host), false, now_, out_, facts).ok());
    Attach(Endless(host));
  }
  HostFacts facts;
  // Half of the sum is left to hosts that prove themselves.
  absl::Status refused =
      membership_.Enrol(Endless("c"), /*vouched=*/false, now_, out_, facts).status();
  EXPECT_EQ(GetErrorInfo(refused).metadata["field"], "nic_bytes_per_second") << refused;
  for (const char* host : {"c", "d"}) Attach(Endless(host), /*vouched=*/true);
  refused = membership_.Enrol(Endless("e"), /*vouched=*/true, now_, out_, facts).status();
  EXPECT_EQ(GetErrorInfo(refused).metadata["field"], "nic_bytes_per_second") << refused;
  planner::Topology topology;
  for (const auto& [host, worker] : membership_.workers().workers()) {
    topology.hosts.push_back(worker.host);
  }
  EXPECT_TRUE(planner::ValidateTopology(topology).ok());
  Attach(Endless("d"), /*vouched=*/true);  // again: it counts once
  membership_.EndStream(1, now_, out_);    // a is forgotten
  Attach(Endless("e"), /*vouched=*/true);
}

TEST_F(MembershipTest, WhileTheJournalIsBehindNoWorkerIsCommanded) {
  Attach("a");
  v1::AttachResponse command;
  command.mutable_retire();
  commands_.Send("a", command, out_);
  EXPECT_EQ(Sent(1, v1::AttachResponse::kRetire), 1);
  commands_.Send("b", command, out_);  // it is away
  EXPECT_EQ(Did<SendToWorker>().size(), 1u);
  Clear();
  v1::Register told = Registration("c");
  told.mutable_position()->set_leadership("a later one");
  std::vector<Record> records;
  EXPECT_FALSE(leadership_.OnProvenHost(told, records, out_));
  commands_.Send("a", command, out_);
  commands_.SendWelcome(Registration("a"), out_);
  EXPECT_EQ(Did<SendToWorker>().size(), 1u);
  EXPECT_EQ(Sent(1, v1::AttachResponse::kWelcome), 1);
}

// Those of 16,384 workers, one a second, took more than half a core.
TEST_F(MembershipTest, HeartbeatsComeLessOftenAmongManyWorkers) {
  using std::chrono::milliseconds;
  ControllerOptions options;
  EXPECT_EQ(HeartbeatInterval(options, 1024), milliseconds(1000));
  EXPECT_EQ(HeartbeatInterval(options, 1536), milliseconds(1500));
  EXPECT_EQ(HeartbeatInterval(options, 16384), milliseconds(2500)) << "of 5 s of silence";
  options.stall_timeout = milliseconds(3000);
  EXPECT_EQ(HeartbeatInterval(options, 16384), milliseconds(1500));
  options.lost_after = milliseconds(2000);
  EXPECT_EQ(HeartbeatInterval(options, 16384), milliseconds(1000)) << "never more often";
}

TEST(ParkedStreamsTest, KeepWhatIsSaidUntilTheyAreTaken) {
  ParkedStreams parked;
  Outbox out;
  const StreamMessage message{.stream = 1, .message = {}};
  EXPECT_FALSE(parked.Keep(message, /*leads=*/true, out));
  EXPECT_TRUE(parked.Keep(message, /*leads=*/false, out));
  EXPECT_TRUE(parked.Keep(message, /*leads=*/true, out));
  parked.Park(2, {});
  EXPECT_EQ(parked.streams(), (std::vector<StreamId>{1, 2}));
  EXPECT_EQ(parked.Take(1)->messages.size(), 2u);
  EXPECT_FALSE(parked.Take(1).has_value());
  EXPECT_FALSE(parked.Keep(message, /*leads=*/true, out));
  EXPECT_TRUE(out.actions().empty());
}

}  // namespace
}  // namespace remesh::server
