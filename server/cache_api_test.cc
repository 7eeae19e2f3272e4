// SPDX-License-Identifier: Apache-2.0
// The plan cache through gRPC: views, lists, files, watches, plans made ahead.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "server/cache/plan_list.h"
#include "server/questions/planning_test_spec.h"
#include "server/testing/server_fixture.h"

namespace remesh::server {

using service::StatusFromGrpc;

namespace {

v1::PlanSpec SpecOfShape(int64_t rows) {
  v1::PlanSpec spec = TestSpec();
  spec.mutable_arrays(0)->set_shape(0, rows);
  return spec;
}

class CacheApiTest : public ServerFixture {
 protected:
  std::string Plan(int64_t rows) {
    const auto made = CreatePlan(SpecOfShape(rows));
    EXPECT_TRUE(made.ok()) << made.status();
    return made->plan().name();
  }
  absl::StatusOr<v1::Plan> Get(const std::string& name, v1::PlanView view) {
    v1::GetPlanRequest request;
    request.set_name(name);
    request.set_view(view);
    return Ask<v1::Plan>([&](auto* c, auto* r) { return plans_->GetPlan(c, request, r); });
  }
  absl::StatusOr<v1::ListPlansResponse> List(const v1::ListPlansRequest& request) {
    return Ask<v1::ListPlansResponse>(
        [&](auto* c, auto* r) { return plans_->ListPlans(c, request, r); });
  }
  absl::StatusOr<v1::Plan> Pin(const std::string& name) {
    v1::PinPlanRequest request;
    request.set_name(name);
    return Ask<v1::Plan>([&](auto* c, auto* r) { return plans_->PinPlan(c, request, r); });
  }
  absl::StatusOr<v1::Plan> Unpin(const std::string& name) {
    v1::UnpinPlanRequest request;
    request.set_name(name);
    return Ask<v1::Plan>([&](auto* c, auto* r) { return plans_->UnpinPlan(c, request, r); });
  }
  // HostProgram.plan_digest.
  std::string DigestOf(const v1::Plan& plan) {
    v1::GetHostProgramRequest request;
    request.set_plan(plan.name());
    request.set_host(TestSpec().topology().hosts(0).name());
    grpc::ClientContext context;
    auto reader = plans_->GetHostProgram(&context, request);
    v1::HostProgram chunk, program;
    while (reader->Read(&chunk)) program.MergeFrom(chunk);
    EXPECT_TRUE(reader->Finish().ok());
    return program.plan_digest();
  }
  absl::Status Delete(const std::string& name) {
    v1::DeletePlanRequest request;
    request.set_name(name);
    return Ask<google::protobuf::Empty>(
               [&](auto* c, auto* r) { return plans_->DeletePlan(c, request, r); })
        .status();
  }
  absl::StatusOr<v1::FlushPlansResponse> Flush(const v1::FlushPlansRequest& request = {}) {
    return Ask<v1::FlushPlansResponse>(
        [&](auto* c, auto* r) { return plans_->FlushPlans(c, request, r); });
  }
  absl::StatusOr<v1::Plan> Import(const v1::ImportPlanRequest& request) {
    return Ask<v1::Plan>([&](auto* c, auto* r) { return plans_->ImportPlan(c, request, r); });
  }
  v1::CacheStats Stats() {
    return *Ask<v1::CacheStats>([&](auto* c, auto* r) { return plans_->GetCacheStats(c, {}, r); });
  }
  absl::StatusOr<std::string> Export(const std::string& name) {
    grpc::ClientContext context;
    v1::ExportPlanRequest request;
    request.set_name(name);
    const auto reader = plans_->ExportPlan(&context, request);
    std::string data;
    for (v1::ExportPlanResponse part; reader->Read(&part);) data += part.data();
    const absl::Status status = StatusFromGrpc(reader->Finish());
    if (!status.ok()) return status;
    return data;
  }
};

TEST_F(CacheApiTest, ViewsHoldWhatTheySay) {
  const v1::Plan created = CreatePlan(SpecOfShape(8))->plan();
  EXPECT_TRUE(created.has_summary());
  const v1::Plan basic = *Get(created.name(), v1::BASIC);
  EXPECT_FALSE(basic.has_summary());
  EXPECT_EQ(basic.fingerprint(), created.fingerprint());
  EXPECT_EQ(basic.tier(), v1::MEMORY);
  EXPECT_EQ(basic.source_devices(), 4);
  EXPECT_EQ(basic.target_hosts(), 2);
  EXPECT_EQ(basic.arrays(), 1);
  EXPECT_GT(basic.cached_bytes(), 0);
  EXPECT_GT(basic.create_time().seconds(), 0);
  EXPECT_GE(basic.last_use_time().seconds(), basic.create_time().seconds());
  for (const v1::PlanView view : {v1::SUMMARY, v1::PLAN_VIEW_UNSPECIFIED}) {
    const v1::Plan summary = *Get(created.name(), view);
    EXPECT_EQ(summary.summary().DebugString(), created.summary().DebugString());
    EXPECT_TRUE(summary.transfers().empty());
  }
  EXPECT_FALSE(Get(created.name(), v1::FULL)->transfers().empty());
  EXPECT_EQ(
      GetErrorInfo(Get(created.name(), static_cast<v1::PlanView>(9)).status()).metadata.at("field"),
      "view");
  v1::ListPlansRequest list;
  EXPECT_FALSE(List(list)->plans(0).has_summary());
  list.set_view(v1::SUMMARY);
  EXPECT_TRUE(List(list)->plans(0).has_summary());
  list.set_view(v1::FULL);
  EXPECT_EQ(GetErrorInfo(List(list).status()).metadata.at("field"), "view");
}

TEST_F(CacheApiTest, PlansAreListedByTheStateThatUsedThem) {
  Plan(16);
  AttachWorkers();
  CreateReadyState(kRows);
  const v1::Execution ended = AwaitEnd(StartExecution(1, kColumns)->name());
  v1::ListPlansRequest request;
  request.mutable_filter()->set_state(kState);
  const auto listed = List(request);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->plans_size(), 1);
  EXPECT_EQ(listed->plans(0).name(), ended.plan());
  EXPECT_EQ(listed->plans(0).states(0), kState);
  request.mutable_filter()->set_state("jobs/a/states/other");
  EXPECT_EQ(List(request)->plans_size(), 0);
  request.mutable_filter()->set_state("nonsense");
  EXPECT_EQ(GetErrorInfo(List(request).status()).metadata.at("field"), "filter.state");
}

TEST_F(CacheApiTest, PagesGoThroughAllPlansOnce) {
  std::set<std::string> made;
  for (int64_t rows = 8; rows < 18; ++rows) made.insert(Plan(rows));
  v1::ListPlansRequest request;
  request.set_page_size(3);
  std::multiset<std::string> seen;
  do {
    const auto page = List(request);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const v1::Plan& plan : page->plans()) seen.insert(plan.name());
    request.set_page_token(page->next_page_token());
    for (const std::string& name : made) ASSERT_TRUE(Get(name, v1::BASIC).ok());
  } while (!request.page_token().empty());
  EXPECT_EQ(seen, std::multiset<std::string>(made.begin(), made.end()));
  request.set_page_token("nonsense");
  EXPECT_EQ(GetErrorInfo(List(request).status()).metadata.at("field"), "page_token");
}

TEST_F(CacheApiTest, APageTokenOfAnotherFilterIsRefused) {
  for (int64_t rows = 8; rows < 12; ++rows) Plan(rows);
  v1::ListPlansRequest request;
  request.set_page_size(3);
  request.mutable_filter()->set_pinned(false);
  const auto page = List(request);
  ASSERT_TRUE(page.ok()) << page.status();
  request.set_page_token(page->next_page_token());
  EXPECT_EQ(List(request)->plans_size(), 1);
  request.mutable_filter()->set_pinned(true);
  EXPECT_EQ(GetErrorInfo(List(request).status()).metadata.at("field"), "page_token");
  request.clear_filter();
  EXPECT_EQ(GetErrorInfo(List(request).status()).metadata.at("field"), "page_token");
}

TEST_F(CacheApiTest, FlushKeepsPinnedPlans) {
  const std::string pinned = Plan(8);
  const std::string other = Plan(12);
  ASSERT_TRUE(Pin(pinned).ok());
  const auto flushed = Flush();
  ASSERT_TRUE(flushed.ok()) << flushed.status();
  EXPECT_EQ(flushed->memory(), 1);
  EXPECT_EQ(flushed->kept(), 1);
  EXPECT_TRUE(Get(pinned, v1::BASIC).ok());
  EXPECT_EQ(GetErrorInfo(Get(other, v1::BASIC).status()).reason, "PLAN_NOT_FOUND");
  EXPECT_EQ(Stats().memory().evictions().flushed(), 1);
  v1::FlushPlansRequest bad;
  bad.add_tiers(v1::MEMORY);
  bad.add_tiers(v1::CACHE_TIER_UNSPECIFIED);
  EXPECT_EQ(GetErrorInfo(Flush(bad).status()).metadata.at("field"), "tiers[1]");
}

TEST_F(CacheApiTest, ProgramsNameTheDigestOfThePlanThatIsServed) {
  const v1::Plan made = CreatePlan(SpecOfShape(64))->plan();
  const std::string digest = DigestOf(made);
  EXPECT_EQ(digest.size(), 16u);
  EXPECT_NE(DigestOf(CreatePlan(SpecOfShape(128))->plan()), digest);
  v1::ImportPlanRequest request;
  request.set_data(*Export(made.name()));
  ASSERT_TRUE(Delete(made.name()).ok());
  EXPECT_EQ(DigestOf(CreatePlan(SpecOfShape(64))->plan()), digest) << "computed again";
  ASSERT_TRUE(Delete(made.name()).ok());
  const auto imported = Import(request);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(DigestOf(*imported), digest);
}

TEST_F(CacheApiTest, AnExportedPlanIsImportedByAnEmptyServer) {
  const v1::Plan made = CreatePlan(SpecOfShape(64))->plan();
  const auto file = Export(made.name());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(GetErrorInfo(Export("plans/none").status()).reason, "PLAN_NOT_FOUND");
  StopServer();
  StartServer();
  EXPECT_FALSE(Get(made.name(), v1::BASIC).ok());
  v1::ImportPlanRequest request;
  request.set_data(*file);
  const auto imported = Import(request);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->name(), made.name());
  EXPECT_EQ(imported->summary().DebugString(), made.summary().DebugString());
  EXPECT_EQ(CreatePlan(SpecOfShape(64))->planning().cache(), v1::Planning::HIT);
  EXPECT_EQ(Stats().computations(), 0);
  EXPECT_EQ(Import(request)->name(), made.name());  // again
  // For other devices of the same structure.
  v1::PlanSpec other = TestSpec({70, 30, 50, 10}, "other-");
  other.mutable_arrays(0)->set_shape(0, 64);
  *request.mutable_spec() = other;
  const auto bound = Import(request);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(bound->fingerprint(), made.fingerprint());
  EXPECT_NE(bound->name(), made.name());
  EXPECT_EQ(CreatePlan(other)->planning().cache(), v1::Planning::HIT);
  // Of another structure, or no plan at all.
  *request.mutable_spec() = SpecOfShape(8);
  EXPECT_EQ(GetErrorInfo(Import(request).status()).reason, "PLAN_FILE_INVALID");
  request.clear_spec();
  request.mutable_data()->back() ^= 1;
  EXPECT_EQ(GetErrorInfo(Import(request).status()).reason, "PLAN_FILE_INVALID");
  EXPECT_EQ(Import({}).status().code(), absl::StatusCode::kInvalidArgument);
}

using Event = v1::WatchPlansResponse;

// "EXISTING plans/x" ...
std::string Shown(const Event& event) {
  std::string shown = Event::Event_Name(event.event());
  if (event.has_plan()) shown += " " + event.plan().name();
  return shown;
}

TEST_F(CacheApiTest, AWatchTellsWhatIsThereThenWhatHappens) {
  const std::string first = Plan(8);
  grpc::ClientContext context;
  const auto reader = plans_->WatchPlans(&context, {});
  Event event;
  const auto next = [&] { return reader->Read(&event) ? Shown(event) : "the end"; };
  EXPECT_EQ(next(), "EXISTING " + first);
  EXPECT_FALSE(event.plan().has_summary());
  EXPECT_EQ(next(), "SYNCED");
  const std::string second = Plan(12);
  EXPECT_EQ(next(), "CREATED " + second);
  ASSERT_TRUE(Pin(second).ok());
  EXPECT_EQ(next(), "PINNED " + second);
  EXPECT_TRUE(event.plan().pinned());
  ASSERT_TRUE(Unpin(second).ok());
  EXPECT_EQ(next(), "UNPINNED " + second);
  const std::string file = *Export(second);
  ASSERT_TRUE(Delete(second).ok());
  EXPECT_EQ(next(), "DELETED " + second);
  v1::ImportPlanRequest import;
  import.set_data(file);
  ASSERT_TRUE(Import(import).ok());
  EXPECT_EQ(next(), "IMPORTED " + second);
  EXPECT_EQ(Stats().watches(), 1);
  ASSERT_TRUE(Flush().ok());
  EXPECT_EQ(std::set<std::string>({next(), next()}),
            std::set<std::string>({"FLUSHED " + first, "FLUSHED " + second}));
  EXPECT_EQ(event.tier(), v1::MEMORY);
  EXPECT_EQ(event.plan().tier(), v1::CACHE_TIER_UNSPECIFIED);  // it was nowhere else
  server_->Shutdown();
  EXPECT_EQ(next(), "the end");
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(CacheApiTest, AWatchWithAFilterHearsOfThosePlansOnly) {
  const std::string pinned = Plan(8);
  Plan(12);
  ASSERT_TRUE(Pin(pinned).ok());
  grpc::ClientContext context;
  v1::WatchPlansRequest request;
  request.mutable_filter()->set_pinned(true);
  const auto reader = plans_->WatchPlans(&context, request);
  Event event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(Shown(event), "EXISTING " + pinned);
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(Shown(event), "SYNCED");
  const std::string other = Plan(16);
  ASSERT_TRUE(Pin(other).ok());
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(Shown(event), "PINNED " + other);
  context.TryCancel();
  while (reader->Read(&event)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  grpc::ClientContext another;
  request.mutable_filter()->mutable_hits()->set_min(-1);
  EXPECT_EQ(GetErrorInfo(StatusFromGrpc(plans_->WatchPlans(&another, request)->Finish()))
                .metadata.at("field"),
            "filter.hits.min");
}

TEST_F(CacheApiTest, EvictionsAreToldWithTheirCause) {
  StopServer();
  core_options_.plan_cache_entries = 2;
  StartServer();
  const std::string first = Plan(8);
  Plan(12);
  grpc::ClientContext context;
  const auto reader = plans_->WatchPlans(&context, {});
  Event event;
  while (reader->Read(&event) && event.event() != Event::SYNCED) {
  }
  Plan(16);
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.event(), Event::CREATED);
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(Shown(event), "EVICTED " + first);
  EXPECT_EQ(event.cause(), Event::ENTRIES);
  EXPECT_EQ(event.tier(), v1::MEMORY);
  context.TryCancel();
}

TEST_F(CacheApiTest, AWatcherThatDoesNotReadIsEndedByName) {
  const std::string name = Plan(8);
  grpc::ClientContext context;
  const auto reader = plans_->WatchPlans(&context, {});
  Event event;
  while (reader->Read(&event) && event.event() != Event::SYNCED) {
  }
  // More than the server keeps, and gRPC keeps on the way.
  for (size_t i = 0; i < PlanWatchers::kKept; ++i) {
    ASSERT_TRUE(core_->plans().SetPinned(name, true).ok());
    ASSERT_TRUE(core_->plans().SetPinned(name, false).ok());
  }
  std::optional<bool> before;  // pinned, by the event before this one
  while (reader->Read(&event)) {
    EXPECT_NE(before, event.plan().pinned());  // no event was left out before the end
    before = event.plan().pinned();
  }
  const absl::Status status = StatusFromGrpc(reader->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(GetErrorInfo(status).reason, "WATCH_TOO_SLOW");
  EXPECT_TRUE(Eventually([&] { return Stats().watches() == 0; }));
}

TEST_F(CacheApiTest, PlansThatOthersMakeDoNotEndAWatcherThatIsNotSyncedYet) {
  constexpr int64_t kPlans = 1'200;  // more than wait for a watcher, or on the way to it
  std::vector<std::string> names;
  const auto make = [&] {  // bound to other devices: nothing is planned
    const int64_t id = 4 * static_cast<int64_t>(names.size());
    names.push_back(CreatePlan(TestSpec({id, id + 1, id + 2, id + 3}))->plan().name());
  };
  for (int64_t i = 0; i < kPlans; ++i) make();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto reader = plans_->WatchPlans(&context, {});
  Event event;
  ASSERT_TRUE(reader->Read(&event));
  for (int64_t i = 0; i < kPlans; ++i) {
    make();
    absl::Status status;
    if (i % 8 == 0) status = core_->plans().Delete(names[i]);
    if (i % 8 == 1) status = core_->plans().SetPinned(names[i], true).status();
    if (i % 8 == 2) status = core_->plans().Delete(names[kPlans + i]);
    ASSERT_TRUE(status.ok()) << status;
  }
  using View = std::map<std::string, bool>;  // whether they are pinned
  View there;
  PlanCache::Place place;
  for (bool more = true; more;) {
    const PlanPage page = PageOfPlans(core_->plans(), 100, place, {}, v1::BASIC);
    for (const v1::Plan& plan : page.plans) there[plan.name()] = plan.pinned();
    more = page.next.has_value();
    if (more) place = *page.next;
  }
  View view;
  bool synced = false;
  do {
    synced |= event.event() == Event::SYNCED;
    if (event.event() == Event::DELETED) view.erase(event.plan().name());
    if (event.has_plan() && event.event() != Event::DELETED) {
      view[event.plan().name()] = event.plan().pinned();
    }
  } while (!(synced && view == there) && reader->Read(&event));
  EXPECT_TRUE(synced && view == there) << StatusFromGrpc(reader->Finish());
  context.TryCancel();
}

TEST_F(CacheApiTest, AStatesNextMoveIsPlannedAhead) {
  AttachWorkers();
  v1::State state = MakeState(kRows);
  v1::Sharding& sharding = *state.mutable_spec()->mutable_arrays(0)->mutable_sharding();
  sharding.mutable_devices()->clear_ids();
  sharding.mutable_devices()->set_ref("data");
  for (int64_t id = 0; id < 4; ++id) {
    (*state.mutable_spec()->mutable_device_lists())["data"].add_ids(id);
  }
  ASSERT_TRUE(Create(state).ok());
  AwaitPhase(v1::State::READY);
  v1::PrecomputePlansRequest request;
  request.set_state(kState);
  request.set_drain_any_one_host(true);
  const auto ahead = Ask<v1::PrecomputePlansResponse>(
      [&](auto* c, auto* r) { return plans_->PrecomputePlans(c, request, r); });
  ASSERT_TRUE(ahead.ok()) << ahead.status();
  ASSERT_EQ(ahead->scenarios_size(), 2);
  EXPECT_EQ(ahead->scenarios(0).outcome(), v1::Scenario::QUEUED) << ahead->DebugString();
  EXPECT_EQ(ahead->scenarios(0).hosts(0), "a");
  EXPECT_TRUE(Eventually([&] { return Stats().precompute().waiting() == 0; }));
  const int64_t computations = Stats().computations();
  EXPECT_EQ(Stats().precompute().computed(), computations);
  v1::StartExecutionRequest start;  // host "a" leaves
  start.set_state(kState);
  start.set_expected_generation(1);
  *start.mutable_targets() = MakeTargets("{devices=[2,1]<=[2]}");
  v1::DeviceList& devices =
      *start.mutable_targets()->mutable_arrays(0)->mutable_sharding()->mutable_devices();
  devices.clear_ids();
  devices.add_ids(2);
  devices.add_ids(3);
  const v1::Execution ended = AwaitEnd(StartExecution(start)->name());
  EXPECT_EQ(ended.planning().cache(), v1::Planning::HIT) << ended.DebugString();
  EXPECT_EQ(Stats().computations(), computations);
  EXPECT_EQ(Stats().precompute().used(), 1);
  request.set_state("jobs/a/states/none");
  EXPECT_EQ(Ask<v1::PrecomputePlansResponse>(
                [&](auto* c, auto* r) { return plans_->PrecomputePlans(c, request, r); })
                .status()
                .code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Ask<v1::PrecomputePlansResponse>(
                [&](auto* c, auto* r) { return plans_->PrecomputePlans(c, {}, r); })
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CacheApiTest, AfterARestartNamesAreListedAndFoundOnDisk) {
  StopServer();
  core_options_.plan_store.path = (directory_ / "plans.db").string();
  StartServer();
  const std::string name = Plan(8);
  StopServer();
  StartServer();
  v1::ListPlansRequest request;
  request.set_view(v1::SUMMARY);
  const auto listed = List(request);
  ASSERT_EQ(listed->plans_size(), 1);
  EXPECT_EQ(listed->plans(0).name(), name);
  EXPECT_EQ(listed->plans(0).tier(), v1::DISK);
  EXPECT_EQ(listed->plans(0).summary().total_bytes(), 256);
  const auto found = Get(name, v1::SUMMARY);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->tier(), v1::MEMORY);
  EXPECT_EQ(Stats().disk().hits(), 1);
  EXPECT_EQ(Stats().computations(), 0);
}

}  // namespace
}  // namespace remesh::server
