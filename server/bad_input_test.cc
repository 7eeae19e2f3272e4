// SPDX-License-Identifier: Apache-2.0
// Law 5 through the real handlers: bad input of every kind names what is wrong, has no effect, and
// the server lives on.
#include <functional>

#include "server/testing/server_fixture.h"

namespace remesh::server {
namespace {

class BadInputTest : public ServerFixture {
 protected:
  void SetUp() override {
    AttachWorkers();
    CreateReadyState(kRows);
  }

  void TearDown() override {
    EXPECT_EQ(GetState()->phase(), v1::State::READY);
    EXPECT_EQ(GetState()->generation(), 1);
    v1::ListStatesRequest request;
    EXPECT_EQ(Ask<v1::ListStatesResponse>([&](auto* c, auto* r) {
                return states_->ListStates(c, request, r);
              })->states_size(),
              1);
  }

  // Expects a refusal with this code and reason or, for INVALID_ARGUMENT, field.
  static void ExpectRefused(const absl::Status& status, absl::StatusCode code,
                            const std::string& reason_or_field) {
    const ErrorInfo info = GetErrorInfo(status);
    EXPECT_EQ(status.code(), code) << status;
    const bool is_field =
        info.metadata.contains("field") && info.metadata.at("field") == reason_or_field;
    EXPECT_TRUE(is_field || info.reason == reason_or_field) << status << " reason " << info.reason;
  }

  void ExpectStateRefused(const std::function<void(v1::State&)>& spoil, absl::StatusCode code,
                          const std::string& what) {
    v1::State state = MakeState(kRows);
    state.set_name("jobs/a/states/bad");
    spoil(state);
    ExpectRefused(Create(state).status(), code, what);
  }

  void ExpectStartRefused(const std::function<void(v1::StartExecutionRequest&)>& spoil,
                          absl::StatusCode code, const std::string& what) {
    v1::StartExecutionRequest request;
    request.set_state(kState);
    request.set_expected_generation(1);
    *request.mutable_targets() = MakeTargets("{devices=[1,4]<=[4]}");
    spoil(request);
    ExpectRefused(StartExecution(request).status(), code, what);
  }
};

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kNotFound = absl::StatusCode::kNotFound;

TEST_F(BadInputTest, States) {
  for (const char* name : {"", "s", "jobs/a/states/", "jobs/a/states/../x"}) {
    ExpectStateRefused([&](v1::State& state) { state.set_name(name); }, kInvalid, "state.name");
  }
  ExpectStateRefused([](v1::State& state) { state.set_name(kState); },
                     absl::StatusCode::kAlreadyExists, "ALREADY_EXISTS");
  ExpectStateRefused([](v1::State& state) { state.set_step(-1); }, kInvalid, "state.step");
  ExpectStateRefused([](v1::State& state) { (*state.mutable_labels())[""] = "x"; }, kInvalid,
                     "state.labels[]");
  ExpectStateRefused([](v1::State& state) { state.mutable_spec()->clear_arrays(); }, kInvalid,
                     "state.spec.arrays");
  ExpectStateRefused(
      [](v1::State& state) { state.mutable_spec()->mutable_arrays(0)->set_element_type("f33"); },
      kInvalid, "state.spec.arrays[0].element_type");
  ExpectStateRefused(
      [](v1::State& state) { state.mutable_spec()->mutable_arrays(0)->set_shape(0, -8); }, kInvalid,
      "state.spec.arrays[0].shape[0]");
  ExpectStateRefused(
      [](v1::State& state) {
        state.mutable_spec()->mutable_arrays(0)->mutable_sharding()->set_op_sharding("\xff");
      },
      kInvalid, "state.spec.arrays[0].sharding.op_sharding");
  ExpectStateRefused(
      [](v1::State& state) {
        v1::Host& host = *state.mutable_spec()->mutable_topology()->add_hosts();
        host.set_name("nobody");
        for (int64_t id = 0; id < 4; ++id) host.add_device_ids(id);
        host.set_nic_bytes_per_second(1);
        host.set_fabric_bytes_per_second(1);
      },
      kPrecondition, "HOST_NOT_ATTACHED");
  ExpectRefused(GetState("jobs/a/states/none").status(), kNotFound, "NOT_FOUND");
}

TEST_F(BadInputTest, Executions) {
  ExpectStartRefused([](auto& r) { r.set_state("s"); }, kInvalid, "state");
  ExpectStartRefused([](auto& r) { r.set_state("jobs/a/states/none"); }, kNotFound, "NOT_FOUND");
  ExpectStartRefused([](auto& r) { r.set_expected_generation(0); }, kInvalid,
                     "expected_generation");
  ExpectStartRefused([](auto& r) { r.set_expected_generation(7); }, kPrecondition,
                     "GENERATION_MISMATCH");
  ExpectStartRefused([](auto& r) { r.clear_targets(); }, kInvalid, "how");
  ExpectStartRefused([](auto& r) { r.set_plan("plans/none"); }, kNotFound, "PLAN_NOT_FOUND");
  ExpectStartRefused([](auto& r) { r.mutable_options()->set_donate(true); }, kPrecondition,
                     "DONATION_UNSUPPORTED");
  ExpectStartRefused([](auto& r) { r.mutable_options()->set_window_bytes(-1); }, kInvalid,
                     "options.window_bytes");
  ExpectStartRefused([](auto& r) { r.mutable_deadline()->set_seconds(-1); }, kInvalid, "deadline");
  ExpectStartRefused([](auto& r) { r.mutable_deadline()->set_seconds(int64_t{1} << 62); }, kInvalid,
                     "deadline");
  ExpectStartRefused([](auto& r) { r.mutable_targets()->mutable_arrays(0)->set_name("v"); },
                     kInvalid, "targets.arrays[0].name");
  ExpectStartRefused([](auto& r) { r.set_request_id(std::string(300, 'x')); }, kInvalid,
                     "request_id");
  ExpectRefused(GetExecution("e").status(), kInvalid, "name");
  ExpectRefused(GetExecution("jobs/a/executions/none").status(), kNotFound, "NOT_FOUND");
}

TEST_F(BadInputTest, Plans) {
  ExpectRefused(CreatePlan({}).status(), kInvalid, "spec.arrays");
  const auto get = [&](const std::string& name) {
    v1::GetPlanRequest request;
    request.set_name(name);
    return Ask<v1::Plan>([&](auto* c, auto* r) { return plans_->GetPlan(c, request, r); }).status();
  };
  ExpectRefused(get("x"), kInvalid, "name");
  ExpectRefused(get("plans/x"), kNotFound, "PLAN_NOT_FOUND");
  v1::ListPlansRequest list;
  list.set_page_size(-1);
  const auto ask = [&] {
    return Ask<v1::ListPlansResponse>(
               [&](auto* c, auto* r) { return plans_->ListPlans(c, list, r); })
        .status();
  };
  ExpectRefused(ask(), kInvalid, "page_size");
  list.set_page_size(0);
  list.set_page_token("!");
  ExpectRefused(ask(), kInvalid, "page_token");
}

TEST_F(BadInputTest, Workers) {
  const auto attach = [&](const std::function<void(v1::Register&)>& spoil) {
    v1::Register identity = WorkerIdentity("c", 9, 1);
    spoil(identity);
    ScriptedWorker worker(channel_, identity);
    return service::StatusFromGrpc(worker.AwaitEnd());
  };
  ExpectRefused(attach([](v1::Register& r) { r.set_host(""); }), kInvalid, "register.host");
  ExpectRefused(attach([](v1::Register& r) { r.clear_devices(); }), kInvalid, "register.devices");
  ExpectRefused(attach([](v1::Register& r) { r.set_nic_bytes_per_second(0); }), kInvalid,
                "register.nic_bytes_per_second");
  ExpectRefused(attach([](v1::Register& r) { r.set_highest_epoch(~uint64_t{0}); }), kInvalid,
                "register.highest_epoch");
  ExpectRefused(attach([](v1::Register& r) { r.set_highest_epoch(~uint64_t{1}); }), kInvalid,
                "register.highest_epoch");
  ExpectRefused(attach([](v1::Register& r) { r.set_incarnation(INT64_MAX); }), kInvalid,
                "register.incarnation");
  ExpectRefused(attach([](v1::Register& r) { r.mutable_devices(0)->set_id(0); }),
                absl::StatusCode::kAlreadyExists, "DEVICE_ID_TAKEN");
  v1::ForgetWorkerRequest forget;
  forget.set_name("workers/a");
  const auto ask = [&] {
    return Ask<google::protobuf::Empty>(
               [&](auto* c, auto* r) { return workers_stub_->ForgetWorker(c, forget, r); })
        .status();
  };
  ExpectRefused(ask(), kPrecondition, "WORKER_ALIVE");
  forget.set_name("workers/none");
  ExpectRefused(ask(), kNotFound, "WORKER_NOT_FOUND");
}

}  // namespace
}  // namespace remesh::server
