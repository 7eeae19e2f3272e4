// SPDX-License-Identifier: Apache-2.0
#include "server/callers/roles.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/unknown_field_set.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "remesh/v1/local.pb.h"
#include "server/questions/planning_test_spec.h"
#include "server/testing/server_fixture.h"
#include "service/rpc/error_info.h"
#include "service/testing/certificate_folder.h"
#include "service/testing/test_authority.h"
#include "service/tls/credentials.h"

namespace remesh::server {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;

constexpr char kDomain[] = "spiffe://remesh.local/";

struct Peer {
  const char* path;
  std::vector<Role> role;  // or none
  bool own = true;         // whether job a, or host a, is what it stands for
};
// Calls are about jobs/a and host a.
const Peer kPeers[] = {
    {"viewer/v", {Role::kViewer}},        {"job/a/t", {Role::kJob}},
    {"job/b/t", {Role::kJob}, false},     {"worker/a", {Role::kWorker}},
    {"worker/b", {Role::kWorker}, false}, {"worker/any", {Role::kWorker}},
    {"admin/x", {Role::kAdmin}},          {"stranger/s", {}},
};

// Job a, or host a, wherever a request has room for one; filters that are refused, so that no watch
// stays open.
void FillIn(Message& message, const std::string& service) {
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    if (field->is_repeated()) continue;
    const std::string& name = field->name();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (name == "filter" || name == "register" || field->message_type()->name() == "CountRange" ||
          (name == "state" && service == "StateService"))
        FillIn(*reflection->MutableMessage(&message, field), service);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      const std::string job_resource =
          service == "ReshardService" ? "jobs/a/executions/e" : "jobs/a/states/s";
      if (name == "scope") reflection->SetString(&message, field, "jobs/a/worlds/w");
      if (name == "host") reflection->SetString(&message, field, "a");
      if (name == "parent") reflection->SetString(&message, field, "jobs/a");
      if (name == "state") reflection->SetString(&message, field, "jobs/a/states/s");
      if (name == "name" && service != "PlanService" && service != "WorkerService")
        reflection->SetString(&message, field, job_resource);
    } else if (name == "min") {
      reflection->SetInt64(&message, field, -1);
    }
  }
}

std::string RequestOf(const MethodDescriptor& method) {
  google::protobuf::DynamicMessageFactory factory(DescriptorPool::generated_pool());
  const std::unique_ptr<Message> request(factory.GetPrototype(method.input_type())->New());
  FillIn(*request, method.service()->name());
  return request->SerializePartialAsString();
}

// Calls a method of any kind with one message; the last answer goes to `last`.
absl::Status CallOnce(grpc::GenericStub& stub, const std::string& method, const std::string& bytes,
                      std::string* last = nullptr) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, method, &queue);
  void* tag = nullptr;
  bool ok = false;
  const auto next = [&] { return queue.Next(&tag, &ok) && ok; };
  call->StartCall(nullptr);
  if (next()) {
    const grpc::Slice slice(bytes);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
    next();
  }
  grpc::ByteBuffer answer;
  for (call->Read(&answer, nullptr); next(); call->Read(&answer, nullptr)) {
    grpc::Slice whole;
    if (last != nullptr && answer.DumpToSingleSlice(&whole).ok())
      last->assign(reinterpret_cast<const char*>(whole.begin()), whole.size());
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  next();
  return service::StatusFromGrpc(status);
}

class RolesTest : public ServerFixture {
 protected:
  RolesTest() {
    folder_.Write(authority_.Credentials("spiffe://remesh.local/server"));
    Server::Options options;
    options.authorizer = AuthorizeByRole("remesh.local");
    options.certificates = *service::CertificateKeeper::Start({.files = folder_.files()}, metrics_);
    tls_server_ = *Server::Start(std::move(options), *core_);
  }

  std::unique_ptr<grpc::GenericStub> StubOf(const std::string& id) {
    const service::Certificates own = authority_.Credentials(id);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    return std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", tls_server_->port()),
                                  service::MakeChannelCredentials(&own), arguments));
  }

  // What the server itself says that it serves: ListServices of grpc.reflection.v1alpha, by hand,
  // since Debian has no header for it.
  std::set<std::string> ServedServices(grpc::GenericStub& stub) {
    constexpr int kAnswer = 6, kService = 1, kName = 1;
    std::string answer;
    const std::string list_services{'\x3a', '\0'};
    EXPECT_TRUE(CallOnce(stub, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                         list_services, &answer)
                    .ok());
    google::protobuf::UnknownFieldSet fields;
    EXPECT_TRUE(fields.ParseFromString(answer));
    std::set<std::string> names;
    for (const std::string& list : Strings(fields, kAnswer)) {
      google::protobuf::UnknownFieldSet services;
      services.ParseFromString(list);
      for (const std::string& service : Strings(services, kService)) {
        google::protobuf::UnknownFieldSet one;
        one.ParseFromString(service);
        names.merge(Strings(one, kName));
      }
    }
    return names;
  }

  static std::set<std::string> Strings(const google::protobuf::UnknownFieldSet& fields,
                                       int number) {
    std::set<std::string> all;
    for (int i = 0; i < fields.field_count(); ++i) {
      if (fields.field(i).number() == number) all.insert(fields.field(i).length_delimited());
    }
    return all;
  }

  const service::TestAuthority authority_;
  const service::CertificateFolder folder_;
  prometheus::Registry registry_;
  service::TlsMetrics metrics_{registry_};
  std::unique_ptr<Server> tls_server_;
};

const MethodRule* RuleOf(const MethodDescriptor& method) {
  for (const MethodRule& rule : MethodRules()) {
    if (rule.method == method.name() && rule.service == method.service()->name()) return &rule;
  }
  return nullptr;
}

// Which requests about a job or a host are the peer's own; plans belong to everyone.
bool IsExpected(const Peer& peer, const MethodRule& rule) {
  const bool has_role =
      !peer.role.empty() && std::count(rule.roles.begin(), rule.roles.end(), peer.role[0]) > 0;
  if (!has_role || peer.own) return has_role;
  const std::set<std::string> about_a = {"Attach", "GetHostProgram", "ListPlans", "WatchPlans",
                                         "PrecomputePlans"};
  if (rule.method == std::string("GetHostProgram")) return peer.role[0] != Role::kWorker;
  return !rule.of_a_job && !about_a.contains(rule.method);
}

// Reflection lists every method that is served; a method missing from the table is an error.
TEST_F(RolesTest, EveryMethodForEveryRole) {
  std::map<std::string, std::unique_ptr<grpc::GenericStub>> stubs;
  std::string table = absl::StrFormat("%-44s", "method on job a, host a");
  for (const Peer& peer : kPeers) {
    stubs[peer.path] = StubOf(absl::StrCat(kDomain, peer.path));
    absl::StrAppend(&table, absl::StrFormat(" %-10s", peer.path));
  }
  std::set<std::string> services = ServedServices(*stubs["stranger/s"]);
  EXPECT_EQ(services.erase("grpc.reflection.v1alpha.ServerReflection"), 1u);
  EXPECT_EQ(services.erase("grpc.health.v1.Health"), 1u);
  services.insert(v1::GetShardsRequest::descriptor()->file()->service(0)->full_name());
  EXPECT_EQ(services.size(), 7u);
  size_t methods = 0, gaps = 0;
  for (const std::string& name : services) {
    const auto* service = DescriptorPool::generated_pool()->FindServiceByName(name);
    ASSERT_NE(service, nullptr) << name;
    for (int i = 0; i < service->method_count(); ++i, ++methods) {
      const MethodDescriptor& method = *service->method(i);
      const MethodRule* rule = RuleOf(method);
      absl::StrAppend(&table, absl::StrFormat("\n%-44s", service->name() + "." + method.name()));
      gaps += rule == nullptr;
      EXPECT_NE(rule, nullptr) << method.full_name() << " is not in MethodRules()";
      for (const Peer& peer : kPeers) {
        const absl::Status status = CallOnce(
            *stubs[peer.path], absl::StrCat("/", name, "/", method.name()), RequestOf(method));
        const bool served =
            status.code() != absl::StatusCode::kUnimplemented || service->name() != "LocalService";
        const bool may = served && status.code() != absl::StatusCode::kPermissionDenied;
        absl::StrAppend(&table, absl::StrFormat(" %-10s", !served ? "socket" : may ? "yes" : "no"));
        EXPECT_NE(status.code(), absl::StatusCode::kDeadlineExceeded) << method.full_name();
        if (rule == nullptr) continue;
        EXPECT_EQ(may, IsExpected(peer, *rule))
            << peer.path << " " << method.full_name() << ": " << status;
      }
    }
  }
  EXPECT_EQ(methods, MethodRules().size());
  std::cout << table << "\n" << methods << " methods, " << gaps << " gaps\n";
}

class ProgramThreadsTest : public RolesTest {
 protected:
  ~ProgramThreadsTest() override { free_->Notify(); }

  // Holds all threads of the pool, each for another caller.
  void Hold(ThreadPool& pool) {
    for (int i = 0; i < core_options_.stream_threads; ++i) {
      const auto wait = [free = free_] { free->WaitForNotification(); };
      ASSERT_TRUE(pool.Post({.caller = absl::StrCat("caller ", i)}, wait));
    }
  }
  absl::Status FetchProgram(const std::string& id) {
    const auto made = CreatePlan(TestSpec());
    if (!made.ok()) return made.status();
    v1::GetHostProgramRequest request;
    request.set_plan(made->plan().name());
    request.set_host("host-0");
    return CallOnce(*StubOf(id), "/remesh.v1.PlanService/GetHostProgram",
                    request.SerializeAsString());
  }

 private:
  const std::shared_ptr<absl::Notification> free_ = std::make_shared<absl::Notification>();
};

// Regression: a worker's identity was looked for under a caller's name, so a worker with a
// certificate waited for streams of others in the middle of a move.
TEST_F(ProgramThreadsTest, AWorkerWithACertificateDoesNotWaitForOtherStreams) {
  Hold(core_->streamers().pool());
  const absl::Status status = FetchProgram("spiffe://remesh.local/worker/host-0");
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(ProgramThreadsTest, AnotherPeerWithACertificateDoesNotUseTheThreadsOfWorkers) {
  Hold(core_->programs().pool());
  const absl::Status status = FetchProgram("spiffe://remesh.local/viewer/v");
  EXPECT_TRUE(status.ok()) << status;
}

// Peers with a certificate of the CA but without a role may use only health and reflection.
TEST_F(RolesTest, HealthIsForEveryPeer) {
  const auto stranger = StubOf("");
  EXPECT_TRUE(CallOnce(*stranger, "/grpc.health.v1.Health/Check", "").ok());
  EXPECT_FALSE(ServedServices(*stranger).empty());
  const absl::Status refused = CallOnce(*stranger, "/remesh.v1.WorkerService/ListWorkers", "");
  EXPECT_EQ(refused.message(), "a certificate without a SPIFFE id has no role");
}

TEST_F(RolesTest, RefusalsNameIdentityAndMethod) {
  const auto authorize = AuthorizeByRole("remesh.local");
  const absl::Status status =
      authorize({.name = "spiffe://remesh.local/job/b/t"}, {.job = "a"}, "StartExecution");
  EXPECT_EQ(status.message(),
            "spiffe://remesh.local/job/b/t may not call StartExecution for jobs/a");
  EXPECT_EQ(GetErrorInfo(status).reason, "ROLE_DENIED");
  EXPECT_EQ(authorize({.name = "spiffe://other/admin/x"}, {}, "GetPlan").message(),
            "spiffe://other/admin/x is not of trust domain remesh.local");
  EXPECT_FALSE(authorize({.name = "spiffe://remesh.local/admin/x"}, {}, "NewMethod").ok());
}

TEST_F(RolesTest, ForgedIdsHaveNoRole) {
  for (const char* id : {"", "admin/x", "spiffe://remesh.local", "spiffe://remesh.local/",
                         "spiffe://remesh.local/admin", "spiffe://remesh.local/admin/",
                         "spiffe://remesh.local.evil/admin/x", "spiffe://evil/remesh.local/admin/x",
                         "spiffe://remesh.local//admin/x", "spiffe://remesh.local/Admin/x",
                         "spiffe://remesh.local/job/-/x", "spiffe://remesh.local/worker/a/b",
                         "SPIFFE://remesh.local/admin/x"}) {
    EXPECT_EQ(GetErrorInfo(RoleOf(id, "remesh.local").status()).reason, "NO_ROLE") << id;
  }
  EXPECT_EQ(WorkerOf("spiffe://remesh.local/worker/a"), "a");
  EXPECT_EQ(WorkerOf("spiffe://remesh.local/worker/any"), "");
  EXPECT_EQ(WorkerOf("spiffe://remesh.local/job/a"), "");
  EXPECT_TRUE(IsWorker("spiffe://remesh.local/worker/a"));
  EXPECT_TRUE(IsWorker("spiffe://remesh.local/worker/any"));
  EXPECT_FALSE(IsWorker("spiffe://remesh.local/viewer/a"));
  EXPECT_FALSE(IsWorker("10.0.0.7"));
}

TEST_F(RolesTest, IdsBeyondTheTableHaveNoRole) {
  for (const char* path :
       {"admin/me/x", "admin/me?x",      "admin/me#x", "admin/me%2fx", "admin/m e",
        "admin/.",    "admin/..",        "viewer/v/w", "viewer/v/",    "job/k/../../admin/me",
        "job/k/../x", "job/../admin/me", "job/k",      "job/k/",       "job/k/x/y",
        "job//x",     "job/k/./x",       "job/k?/x",   "worker/a?x",   "worker/..",
        "worker/a/",  "admin/\u202eem",  "admin/\x7f"}) {
    const std::string id = absl::StrCat(kDomain, path);
    EXPECT_EQ(GetErrorInfo(RoleOf(id, "remesh.local").status()).reason, "NO_ROLE") << id;
    EXPECT_EQ(WorkerOf(id), "") << id;
    EXPECT_FALSE(IsWorker(id)) << id;
  }
  for (const char* path : {"admin/a.b_c-9", "job/k/t", "viewer/-", "worker/node-1.example.com"}) {
    EXPECT_TRUE(RoleOf(absl::StrCat(kDomain, path), "remesh.local").ok()) << path;
  }
}

// As certificates: TLS takes such an id for one.
TEST_F(RolesTest, ACertificateOfAnIdBeyondTheTableIsRefused) {
  for (const char* path : {"admin/me/x", "admin/me?x", "job/k/../../admin/me"}) {
    const auto stub = StubOf(absl::StrCat(kDomain, path));
    const absl::Status refused = CallOnce(*stub, "/remesh.v1.WorkerService/ListWorkers", "");
    EXPECT_EQ(GetErrorInfo(refused).reason, "NO_ROLE") << path << ": " << refused;
  }
}

// A job may not list all jobs.
TEST_F(RolesTest, AJobDoesNotListTheOthers) {
  const auto job = StubOf("spiffe://remesh.local/job/a/t");
  for (const char* parent : {"", "jobs/-", "jobs/b", "jobs/a"}) {
    v1::ListStatesRequest request;
    request.set_parent(parent);
    const absl::Status status =
        CallOnce(*job, "/remesh.v1.StateService/ListStates", request.SerializeAsString());
    EXPECT_EQ(status.ok(), parent == std::string("jobs/a")) << parent << ": " << status;
  }
}

TEST_F(RolesTest, AJobIsToldWhichListItMayHave) {
  const auto authorize = AuthorizeByRole("remesh.local");
  const service::Identity job{.name = "spiffe://remesh.local/job/a/t"};
  const absl::Status states = authorize(job, {}, "ListStates");
  EXPECT_EQ(states.message(),
            "spiffe://remesh.local/job/a/t may not call ListStates; it may for parent jobs/a "
            "(remeshctl --parent jobs/a, or job: a in its context)");
  EXPECT_EQ(GetErrorInfo(states).metadata["allowed_parent"], "jobs/a");
  EXPECT_EQ(GetErrorInfo(authorize(job, {.job = "b"}, "ListExecutions")).metadata["allowed_parent"],
            "jobs/a");
  // No parent helps here: the job may not call the method at all, or not for the resource that it
  // named.
  for (const char* method : {"GetServer", "GetState"}) {
    const absl::Status other = authorize(job, {.job = "b"}, method);
    EXPECT_FALSE(GetErrorInfo(other).metadata.contains("allowed_parent")) << other;
  }
  const absl::Status worker =
      authorize({.name = "spiffe://remesh.local/worker/h"}, {}, "ListStates");
  EXPECT_FALSE(GetErrorInfo(worker).metadata.contains("allowed_parent")) << worker;
}

}  // namespace
}  // namespace remesh::server
