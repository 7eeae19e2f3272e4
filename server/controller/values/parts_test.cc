// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "server/controller/membership/worker_registry.h"
#include "server/controller/values/device_ledger.h"
#include "server/controller/values/names.h"
#include "server/controller/values/pagination.h"
#include "server/controller/values/uid.h"

namespace remesh::server {
namespace {

using Names = std::vector<std::string>;

TEST(DeviceLedgerTest, ServesADeviceOnceAndInTheOrderOfAsking) {
  DeviceLedger ledger;
  ledger.Ask("small", {{"a", {0}}});
  ledger.Ask("large", {{"a", {0, 1}}, {"c", {0}}});
  ledger.Ask("late", {{"a", {1}}});
  ledger.Ask("elsewhere", {{"b", {0}}});
  EXPECT_EQ(ledger.Admit(), (Names{"small", "elsewhere"}));  // "late" does not overtake "large"
  EXPECT_EQ(ledger.Admit(), Names{});
  ledger.Release("small");
  EXPECT_EQ(ledger.Admit(), Names{"large"});
  ledger.Release("large");
  EXPECT_EQ(ledger.Admit(), Names{"late"});
  ledger.Ask("next", {{"a", {1}}});
  ledger.Ask("last", {{"a", {1}}, {"b", {1}}});
  ledger.Release("next");  // before its turn
  EXPECT_EQ(ledger.Admit(), Names{});
  ledger.Release("late");
  EXPECT_EQ(ledger.Admit(), Names{"last"});
}

TEST(UidTest, IsARandomUuid) {
  EXPECT_EQ(MakeUid(0, 0), "00000000-0000-4000-8000-000000000000");
  EXPECT_EQ(MakeUid(~uint64_t{0}, ~uint64_t{0}), "ffffffff-ffff-4fff-bfff-ffffffffffff");
  EXPECT_EQ(MakeUid(0x0123456789abcdef, 0x0123456789abcdef),
            "01234567-89ab-4def-8123-456789abcdef");
}

TEST(NamesTest, TakeTheFormsOfTheContractOnly) {
  EXPECT_EQ(*ParseStateName("name", "jobs/a/states/b-1.x"), "a");
  for (const char* bad :
       {"", "jobs/a", "jobs//states/b", "jobs/a/states/", "jobs/a/states/b/c", "jobs/a/states/../b",
        "jobs/-/states/b", "jobs/a/executions/b", "Jobs/a/states/b", "jobs/a/states/b "}) {
    const absl::Status status = ParseStateName("name", bad).status();
    EXPECT_EQ(GetErrorInfo(status).metadata["field"], "name") << bad;
  }
  EXPECT_EQ(*ParseParent("parent", "jobs/-"), "");
  EXPECT_EQ(*ParseParent("parent", "jobs/a"), "jobs/a/");
  EXPECT_FALSE(ParseParent("parent", "jobs/a/").ok());
  EXPECT_EQ(*ParseWorkerName("name", "workers/h.example-1"), "h.example-1");
}

v1::Worker NumberedWorker(int number) {
  v1::Worker worker;
  worker.set_name(std::to_string(number));
  return worker;
}

TEST(PaginationTest, PagesHoldEveryEntryOnceWhateverIsRemovedBetweenThem) {
  std::map<std::string, int> entries;
  for (int i = 0; i < 10; ++i) entries["k" + std::to_string(i)] = i;
  std::vector<int> seen;
  const auto odd = [](int value) { return value % 2 == 1; };
  std::string token;
  const auto read = [&] {
    v1::ListWorkersResponse page;
    token = FillPage(entries, *ParsePage(2, token, "odd"), "odd", odd, NumberedWorker, 1000,
                     *page.mutable_workers());
    for (const v1::Worker& worker : page.workers()) seen.push_back(std::stoi(worker.name()));
  };
  read();
  entries.erase("k3");  // the token's own key
  read();
  read();
  EXPECT_EQ(token, "");
  EXPECT_EQ(seen, (std::vector<int>{1, 3, 5, 7, 9}));
}

TEST(PaginationTest, APageEndsBeforeItIsTooLongForAMessage) {
  std::map<std::string, int> entries = {{"a", 0}, {"b", 500}, {"c", 0}, {"d", 0}, {"e", 0}};
  const auto make = [](int padding) {
    v1::Worker worker;
    worker.set_name(std::string(10 + static_cast<size_t>(padding), 'x'));
    return worker;
  };
  std::vector<int> sizes;
  std::string token;
  do {
    v1::ListWorkersResponse page;
    token = FillPage(
        entries, *ParsePage(0, token, "s"), "s", [](int) { return true; }, make, 100,
        *page.mutable_workers());
    sizes.push_back(page.workers_size());
    EXPECT_TRUE(page.ByteSizeLong() <= 100 || page.workers_size() == 1);
  } while (!token.empty());
  EXPECT_EQ(sizes, (std::vector<int>{1, 1, 3}));  // the large one alone
}

TEST(PaginationTest, RefusesWhatItNeverGave) {
  EXPECT_FALSE(ParsePage(-1, "", "s").ok());
  EXPECT_FALSE(ParsePage(0, "%%%", "s").ok());
  EXPECT_FALSE(ParsePage(0, MakePageToken("other", "k"), "s").ok());
  EXPECT_EQ(ParsePage(5000, "", "s")->size, 1000);
}

v1::Register Identity(const std::string& host, int64_t device) {
  v1::Register registration;
  registration.set_host(host);
  registration.set_host_secret(std::string(32, 's'));
  registration.set_process_nonce(std::string(16, 'n'));
  registration.add_devices()->set_id(device);
  registration.set_nic_bytes_per_second(1e9);
  registration.set_fabric_bytes_per_second(1e9);
  return registration;
}

TEST(WorkerRegistryTest, LaterStreamsReplaceEarlierOnesAndSilenceIsNoticed) {
  WorkerRegistry workers;
  const Moment start{.steady = std::chrono::seconds(1), .wall = absl::UnixEpoch()};
  EXPECT_EQ(workers.Attach(1, Identity("b", 1), start), 0u);
  EXPECT_EQ(workers.Attach(2, Identity("a", 0), start), 0u);
  EXPECT_EQ(workers.Attach(3, Identity("b", 1), start), 1u);
  EXPECT_EQ(*workers.OwnerOf(0), "a");
  EXPECT_EQ(workers.OwnerOf(7), nullptr);
  EXPECT_EQ(workers.workers().begin()->second.host.name, "a");
  const Moment later{.steady = std::chrono::seconds(6), .wall = absl::UnixEpoch()};
  workers.OnMessage(2, v1::AttachRequest(), later);
  EXPECT_EQ(workers.Silent(later.steady, std::chrono::seconds(4)), std::vector<StreamId>{3});
  EXPECT_EQ(workers.Detach(1), std::nullopt);
  EXPECT_EQ(workers.Detach(3), "b");
  EXPECT_FALSE(workers.alive("b"));
}

TEST(WorkerRegistryTest, EachHostIsSilentInItsTimeHoweverOftenTheRegistryIsAsked) {
  using std::chrono::seconds;
  const auto at = [](int64_t second) {
    return Moment{.steady = seconds(second), .wall = absl::UnixEpoch()};
  };
  WorkerRegistry workers;
  workers.Attach(1, Identity("a", 0), at(1));
  EXPECT_TRUE(workers.Silent(seconds(5), seconds(4)).empty());
  EXPECT_EQ(workers.Silent(seconds(6), seconds(4)), std::vector<StreamId>{1});
  EXPECT_EQ(workers.Silent(seconds(6), seconds(4)), std::vector<StreamId>{1}) << "not yet detached";
  workers.OnMessage(1, v1::AttachRequest(), at(6));
  workers.Attach(2, Identity("b", 1), at(8));
  EXPECT_TRUE(workers.Silent(seconds(10), seconds(4)).empty());
  workers.OnMessage(1, v1::AttachRequest(), at(10));
  EXPECT_TRUE(workers.Silent(seconds(12), seconds(4)).empty());
  EXPECT_EQ(workers.Silent(seconds(13), seconds(4)), std::vector<StreamId>{2});
  EXPECT_EQ(workers.Silent(seconds(13), seconds(2)), (std::vector<StreamId>{1, 2}));
}

TEST(WorkerRegistryTest, SecretsAreNeverShown) {
  WorkerRegistry workers;
  v1::Register registration = Identity("a", 0);
  registration.set_join_token("token");
  workers.Attach(1, registration, Moment{});
  const v1::Register shown = ToProto(*workers.Find("a")).registration();
  EXPECT_EQ(shown.host_secret() + shown.join_token() + shown.process_nonce(), "");
}

TEST(WorkerRegistryTest, NamesTheFieldThatIsWrong) {
  const auto field = [](void (*spoil)(v1::Register&)) {
    v1::Register registration = Identity("a", 0);
    spoil(registration);
    return GetErrorInfo(ValidateRegister(registration)).metadata["field"];
  };
  EXPECT_EQ(field([](v1::Register&) {}), "");
  EXPECT_EQ(field([](v1::Register& r) { r.set_host("a/b"); }), "host");
  EXPECT_EQ(field([](v1::Register& r) { r.set_host_secret("short"); }), "host_secret");
  EXPECT_EQ(field([](v1::Register& r) { r.clear_process_nonce(); }), "process_nonce");
  EXPECT_EQ(field([](v1::Register& r) { r.set_incarnation(-1); }), "incarnation");
  EXPECT_EQ(field([](v1::Register& r) { r.set_last_incarnation(INT64_MAX); }), "last_incarnation");
  EXPECT_EQ(field([](v1::Register& r) { r.add_devices()->set_id(0); }), "devices[1].id");
  EXPECT_EQ(field([](v1::Register& r) { r.set_nic_bytes_per_second(std::nan("")); }),
            "nic_bytes_per_second");
  EXPECT_EQ(field([](v1::Register& r) {
              for (int i = 0; i <= 100'000; ++i) r.add_manifests();
            }),
            "manifests");
  EXPECT_EQ(field([](v1::Register& r) {
              for (int i = 1; i <= 4096; ++i) r.add_devices()->set_id(i);
            }),
            "devices");
  const auto held = [](void (*spoil)(v1::Register&)) {
    v1::Register registration;
    registration.add_manifests()->set_state("jobs/j/states/s");
    registration.add_attempts()->set_execution("jobs/j/executions/e");
    EXPECT_TRUE(ValidateHeld(registration).ok());
    spoil(registration);
    return GetErrorInfo(ValidateHeld(registration)).metadata["field"];
  };
  EXPECT_EQ(held([](v1::Register& r) { r.add_manifests()->set_state("nowhere"); }),
            "manifests[1].state");
  EXPECT_EQ(
      held([](v1::Register& r) { r.mutable_manifests(0)->set_state_uid(std::string(65, 'u')); }),
      "manifests[0].state_uid");
  EXPECT_EQ(held([](v1::Register& r) { r.add_attempts()->set_execution("jobs/j"); }),
            "attempts[1].execution");
}

TEST(WorkerRegistryTest, NothingThatIsOnlyPassedOnIsUnbounded) {
  const auto refused = [](void (*spoil)(v1::Register&)) {
    v1::Register registration = Identity("a", 0);
    spoil(registration);
    const absl::Status status = ValidateRegister(registration);
    return absl::IsInvalidArgument(status) ? GetErrorInfo(status).metadata["field"] : "";
  };
  EXPECT_EQ(refused([](v1::Register& r) { r.set_boot_id(std::string(65, 'b')); }), "boot_id");
  EXPECT_EQ(refused([](v1::Register& r) { r.set_version(std::string(65, 'v')); }), "version");
  EXPECT_EQ(refused([](v1::Register& r) {
              for (int i = 0; i <= 64; ++i) r.add_data_addresses();
            }),
            "data_addresses");
  EXPECT_EQ(refused([](v1::Register& r) {
              r.add_data_addresses();
              r.add_data_addresses()->set_address(std::string(4097, 'a'));
            }),
            "data_addresses[1].address");
  EXPECT_EQ(
      refused([](v1::Register& r) { r.add_data_addresses()->set_transport(std::string(65, 't')); }),
      "data_addresses[0].transport");
  EXPECT_EQ(refused([](v1::Register& r) {
              for (int i = 0; i <= 10'000; ++i) r.add_attempts();
            }),
            "attempts");
  EXPECT_EQ(refused([](v1::Register& r) { r.set_parent(std::string(254, 'p')); }), "parent");
  EXPECT_EQ(
      refused([](v1::Register& r) { r.mutable_position()->set_leadership(std::string(65, 'l')); }),
      "position.leadership");
  EXPECT_EQ(
      refused([](v1::Register& r) { r.mutable_position()->set_cluster_uid(std::string(65, 'c')); }),
      "position.cluster_uid");
}

}  // namespace
}  // namespace remesh::server
