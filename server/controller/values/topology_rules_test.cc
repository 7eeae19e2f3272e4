// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/topology_rules.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "proto/convert/presets/message_costs.h"
#include "proto/text/text.h"
#include "server/controller/membership/worker_registry.h"

namespace remesh::server {

using planner::Host;

namespace {

absl::StatusOr<TopologyRules> Rules(const std::string& yaml) {
  v1::TopologyRules rules;
  const absl::Status status = proto::ParseText(yaml, rules);
  if (!status.ok()) return status;
  return TopologyRules::Make(std::move(rules));
}

v1::Register Registration(const std::string& host, int64_t device, const std::string& parent = "") {
  v1::Register registration;
  registration.set_host(host);
  registration.set_host_secret(std::string(32, 's'));
  registration.set_process_nonce(std::string(16, 'n'));
  registration.add_devices()->set_id(device);
  registration.set_nic_bytes_per_second(1e9);
  registration.set_fabric_bytes_per_second(1e10);
  registration.set_parent(parent);
  return registration;
}

std::string FieldOf(const absl::Status& status) { return GetErrorInfo(status).metadata["field"]; }

constexpr char kRacks[] = R"(
hosts:
- {match: "*", preset: hgx-h100}
- {match: "gpu-1-?", parent: rack-1}
- {match: "gpu-2-*", parent: rack-2, nic_bytes_per_second: 25e9}
domains:
- {name: pod, egress_bytes_per_second: 1e12, ingress_bytes_per_second: 1e12}
- {name: rack-1, parent: pod, egress_bytes_per_second: 4e11, ingress_bytes_per_second: 2e11}
- {name: rack-2, parent: pod, egress_bytes_per_second: 4e11, ingress_bytes_per_second: 2e11}
)";

TEST(TopologyRulesTest, LaterRulesWinInWhatTheySet) {
  const auto rules = Rules(kRacks);
  ASSERT_TRUE(rules.ok()) << rules.status();
  const Host one = rules->HostOf(Registration("gpu-1-7", 3));
  EXPECT_EQ(one.device_ids, std::vector<int64_t>{3});
  EXPECT_EQ(one.nics, 8);
  EXPECT_EQ(one.nic_bytes_per_second, 50e9);
  EXPECT_EQ(one.fabric_bytes_per_second, 450e9);
  EXPECT_EQ(one.parent, "rack-1");
  const Host two = rules->HostOf(Registration("gpu-2-10", 3));
  EXPECT_EQ(two.nic_bytes_per_second, 25e9);
  EXPECT_EQ(two.nics, 8);
  EXPECT_EQ(two.parent, "rack-2");
  EXPECT_EQ(rules->HostOf(Registration("gpu-1-10", 3)).parent, "") << "? is one character";
}

TEST(TopologyRulesTest, WithoutRulesWorkersAreAsTheySay) {
  const Host host = TopologyRules().HostOf(Registration("a", 3));
  EXPECT_EQ(host.nics, 1);
  EXPECT_EQ(host.nic_bytes_per_second, 1e9);
  EXPECT_EQ(host.parent, "");
}

v1::Register WithTransport(v1::Register registration, const std::string& transport) {
  registration.add_data_addresses()->set_transport(transport);
  return registration;
}

TEST(TopologyRulesTest, CostsOfMessagesAreTheTransportsUnlessGiven) {
  const v1::Register plain = Registration("a", 3);
  const v1::Register tcp = WithTransport(plain, "tcp+aes-256-gcm");
  const auto costs_of = [](const v1::Register& r) {
    return TopologyRules().HostOf(r).message_costs;
  };
  EXPECT_EQ(costs_of(plain), planner::MessageCosts{});
  EXPECT_EQ(costs_of(tcp), proto::kTcpMessageCosts);
  EXPECT_EQ(costs_of(WithTransport(tcp, "nccl")), planner::MessageCosts{});
  v1::Register own = tcp;
  own.set_post_seconds(7e-6);
  own.set_posting_threads(2);
  EXPECT_EQ(costs_of(own).nic_message_seconds, proto::kTcpMessageCosts.nic_message_seconds);
  EXPECT_EQ(costs_of(own).post_seconds, 7e-6);
  EXPECT_EQ(costs_of(own).posting_threads, 2);
}

TEST(TopologyRulesTest, RulesOverrideCostsOfMessages) {
  v1::Register tcp = WithTransport(Registration("a", 3), "tcp");
  tcp.set_post_seconds(7e-6);
  const auto rules = Rules(R"(
hosts:
- {match: a, nic_message_seconds: 1e-6}
- {match: b, preset: hgx-h100, posting_threads: 8}
)");
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->HostOf(tcp).message_costs.nic_message_seconds, 1e-6);
  EXPECT_EQ(rules->HostOf(tcp).message_costs.post_seconds, 7e-6);
  tcp.set_host("b");
  EXPECT_EQ(rules->HostOf(tcp).message_costs.posting_threads, 8);
  EXPECT_EQ(rules->HostOf(tcp).message_costs.post_seconds, proto::kTcpMessageCosts.post_seconds)
      << "a preset replaces what the worker registered";
}

TEST(TopologyRulesTest, ARuleForCapacitiesEndsTheirBeingAssumed) {
  const auto rules = Rules(R"(
hosts:
- {match: a, preset: hgx-h100}
- {match: b, nic_bytes_per_second: 1e9}
- {match: c, nics: 2}
)");
  ASSERT_TRUE(rules.ok()) << rules.status();
  const auto assumed = [&](const std::string& host) {
    v1::Register registration = Registration(host, 3);
    registration.set_capacities_assumed(true);
    return rules->HostOf(registration).capacities_assumed;
  };
  EXPECT_FALSE(assumed("a"));
  EXPECT_FALSE(assumed("b"));
  EXPECT_TRUE(assumed("c"));
  EXPECT_TRUE(assumed("d"));
  EXPECT_FALSE(rules->HostOf(Registration("d", 3)).capacities_assumed);
}

TEST(TopologyRulesTest, CostsOfMessagesThatCannotBeAreRefused) {
  v1::Register registration = Registration("a", 3);
  registration.set_nic_message_seconds(std::nan(""));
  EXPECT_EQ(FieldOf(ValidateRegister(registration)), "nic_message_seconds");
  registration.set_nic_message_seconds(0);
  registration.set_posting_threads(-1);
  EXPECT_EQ(FieldOf(ValidateRegister(registration)), "posting_threads");
  EXPECT_EQ(FieldOf(Rules("hosts: [{match: a, post_seconds: -1}]").status()),
            "hosts[0].post_seconds");
}

TEST(TopologyRulesTest, TheRegistryKnowsWorkersInTheirRacks) {
  WorkerRegistry workers(*Rules(kRacks));
  const Moment now{.steady = std::chrono::seconds(1), .wall = absl::UnixEpoch()};
  workers.Attach(1, Registration("gpu-1-0", 0), now);
  workers.Attach(2, Registration("other", 1, "rack-2"), now);
  planner::Topology topology{.hosts = {workers.Find("gpu-1-0")->host, workers.Find("other")->host},
                             .domains = workers.rules().domains()};
  EXPECT_TRUE(planner::ValidateTopology(topology).ok());
  EXPECT_EQ(topology.hosts[0].parent, "rack-1");
  EXPECT_EQ(topology.hosts[1].parent, "rack-2");
  ASSERT_EQ(topology.domains.size(), 3u);
  EXPECT_EQ(topology.domains[1].ingress_bytes_per_second, 2e11);
  EXPECT_EQ(FieldOf(workers.Check(Registration("x", 2, "rack-9"))), "parent");
  EXPECT_EQ(FieldOf(workers.Check(Registration("pod", 2))), "host");
}

TEST(TopologyRulesTest, RulesThatMakeNoSenseAreRefused) {
  const auto field = [](const std::string& yaml) { return FieldOf(Rules(yaml).status()); };
  EXPECT_EQ(field("hosts: [{preset: hgx-h100}]"), "hosts[0].match");
  EXPECT_EQ(field("hosts: [{match: a}, {match: b, preset: dgx}]"), "hosts[1].preset");
  EXPECT_EQ(field("hosts: [{match: a, nics: -1}]"), "hosts[0].nics");
  EXPECT_EQ(field("hosts: [{match: a, nic_bytes_per_second: -1}]"),
            "hosts[0].nic_bytes_per_second");
  EXPECT_EQ(field("hosts: [{match: a, parent: r}]"), "hosts[0].parent");
  EXPECT_EQ(field("domains: [{name: r, egress_bytes_per_second: 1}]"),
            "domains[0].ingress_bytes_per_second");
  const std::string rates = "egress_bytes_per_second: 1, ingress_bytes_per_second: 1";
  EXPECT_EQ(field("domains: [{name: r, parent: q, " + rates + "}]"), "domains[0].parent");
  EXPECT_EQ(field("domains: [{name: r, parent: r, " + rates + "}]"), "domains[0].parent");
  EXPECT_EQ(field("domains: [{name: r, " + rates + "}, {name: r, " + rates + "}]"),
            "domains[1].name");
}

TEST(MatchesTest, StarsAndQuestionMarks) {
  EXPECT_TRUE(Matches("*", ""));
  EXPECT_TRUE(Matches("a*b*c", "a-b-b-c"));
  EXPECT_TRUE(Matches("*-?", "gpu-1-7"));
  EXPECT_TRUE(Matches("abc", "abc"));
  EXPECT_FALSE(Matches("a*b", "abc"));
  EXPECT_FALSE(Matches("?", ""));
  EXPECT_FALSE(Matches("", "a"));
  EXPECT_FALSE(Matches("a.c", "abc"));
}

}  // namespace
}  // namespace remesh::server
