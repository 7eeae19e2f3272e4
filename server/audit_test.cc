// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "server/callers/call_limits.h"
#include "server/callers/caller.h"
#include "server/callers/roles.h"
#include "server/testing/every_method.h"
#include "server/testing/server_fixture.h"
#include "service/rpc/audit_log.h"
#include "service/rpc/error_info.h"

namespace remesh::server {
namespace {

class AuditTest : public ServerFixture {
 protected:
  // A server that writes an audit log.
  std::unique_ptr<Server> StartAudited(bool reads, const service::Authorizer& authorizer) {
    std::filesystem::remove(path_);
    auto log = service::AuditLog::Open(
        {.path = path_, .reads = reads, .is_read = IsRead, .caller_of = CallerOf}, registry_);
    EXPECT_TRUE(log.ok()) << log.status();
    Server::Options options;
    options.authorizer = authorizer;
    options.audit = *log;
    options.extend = [log = *log](grpc::ServerBuilder& builder) {
      std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> creators;
      creators.push_back(service::AuditLog::NewInterceptors(log));
      builder.experimental().SetInterceptorCreators(std::move(creators));
    };
    return *Server::Start(std::move(options), *core_);
  }
  // All lines of the log; ends the server, and with it the log, which writes what waits.
  std::vector<nlohmann::json> LinesOf(std::unique_ptr<Server> server) const {
    server = nullptr;
    std::vector<nlohmann::json> lines;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  // The log's lines by request id, of every method called once.
  std::map<std::string, nlohmann::json> LinesOfAllMethods(bool reads,
                                                          const service::Authorizer& authorizer) {
    auto server = StartAudited(reads, authorizer);
    const auto channel = server->InProcessChannel();
    for (const std::string& method : Methods()) {
      // A watch of all plans stays open until somebody ends it.
      if (method.ends_with("/WatchPlans") && authorizer({}, {}, "WatchPlans").ok()) continue;
      CallEmpty(channel, method, method).IgnoreError();  // its line says how it ended
    }
    std::map<std::string, nlohmann::json> lines;
    for (const nlohmann::json& line : LinesOf(std::move(server))) {
      EXPECT_TRUE(lines.emplace(line["request_id"], line).second) << line;
    }
    return lines;
  }
  static std::vector<std::string> Methods() {
    std::vector<std::string> methods;
    for (const char* name : kServices) {
      const auto* service =
          google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
      for (int i = 0; i < service->method_count(); ++i) {
        methods.push_back("/" + std::string(name) + "/" + service->method(i)->name());
      }
    }
    return methods;
  }
  static std::string NameOf(const std::string& method) {
    return method.substr(method.rfind('/') + 1);
  }

  static absl::Status Deny(const service::Identity&, const service::Resource&, std::string_view) {
    return MakeError(absl::StatusCode::kPermissionDenied, "no",
                     {.reason = "ROLE_DENIED", .metadata = {}});
  }

  const std::string path_ = directory_ / "audit.jsonl";
  prometheus::Registry registry_;
};

TEST_F(AuditTest, EveryChangeHasALineAndNoRead) {
  const auto lines = LinesOfAllMethods(/*reads=*/false, service::AllowAll());
  int changes = 0;
  for (const std::string& method : Methods()) {
    EXPECT_EQ(lines.contains(method), !IsRead(NameOf(method))) << method;
    changes += lines.contains(method);
  }
  EXPECT_GE(changes, 15);
  const nlohmann::json& line = lines.at("/remesh.v1.StateService/CreateState");
  EXPECT_EQ(line["type"], "audit");
  EXPECT_EQ(line["method"], "StateService/CreateState");
  EXPECT_EQ(line["status_code"], "INVALID_ARGUMENT");
  EXPECT_EQ(line["reason"], "INVALID_FIELD");
  EXPECT_FALSE(line["caller_id"].get<std::string>().empty());
}

TEST_F(AuditTest, EveryDenialHasALine) {
  const auto lines = LinesOfAllMethods(/*reads=*/false, Deny);
  for (const std::string& method : Methods()) {
    ASSERT_TRUE(lines.contains(method)) << method;
    EXPECT_EQ(lines.at(method)["status_code"], "PERMISSION_DENIED") << method;
    EXPECT_EQ(lines.at(method)["reason"], "ROLE_DENIED") << method;
  }
}

TEST_F(AuditTest, ReadsAreWrittenWhereTheyAreAskedFor) {
  const auto lines = LinesOfAllMethods(/*reads=*/true, service::AllowAll());
  EXPECT_EQ(lines.size() + 1, Methods().size());  // all but WatchPlans
}

TEST_F(AuditTest, AFloodOfDeniedCallsIsSummedUp) {
  constexpr int kCalls = 1000;
  const auto deny_deleting = [](const auto& identity, const auto& resource, auto method) {
    return method == "DeletePlan" ? Deny(identity, resource, method) : absl::OkStatus();
  };
  auto server = StartAudited(/*reads=*/false, deny_deleting);
  const auto channel = server->InProcessChannel();
  for (int i = 0; i < kCalls; ++i) {
    CallEmpty(channel, "/remesh.v1.PlanService/DeletePlan").IgnoreError();
  }
  EXPECT_TRUE(CallEmpty(channel, "/remesh.v1.PlanService/FlushPlans", "change").ok());
  int denied = 0, summed_up = 0, changes = 0;
  for (const nlohmann::json& line : LinesOf(std::move(server))) {
    if (line["type"] == "audit_summary") {
      summed_up += line["calls"].get<int>();
      EXPECT_TRUE(line["caller"].get<std::string>().starts_with("peer ")) << line;
    } else if (line["request_id"] == "change") {
      ++changes;
    } else {
      ++denied;
    }
  }
  EXPECT_EQ(denied + summed_up, kCalls) << "each is told of";
  EXPECT_GE(denied, service::AuditLog::kOfCaller.burst);
  EXPECT_LT(denied, kCalls / 2);
  EXPECT_EQ(changes, 1) << "what changes something has its line";
}

TEST_F(AuditTest, ARequestThatCannotBeReadIsNotCalledAnUnknownMethod) {
  auto server = StartAudited(/*reads=*/true, service::AllowAll());
  const auto channel = server->InProcessChannel();
  for (const char* method : {"AdminService/BackUpJournal", "StateService/CreateState"}) {
    EXPECT_FALSE(CallWith("\x07not protobuf", channel, absl::StrCat("/remesh.v1.", method)).ok());
  }
  const std::vector<nlohmann::json> lines = LinesOf(std::move(server));
  ASSERT_EQ(lines.size(), 2u);
  for (const nlohmann::json& line : lines) EXPECT_EQ(line["reason"], "REQUEST_UNREADABLE") << line;
}

// Every method that plans or creates something is limited, including methods that are added later.
TEST_F(AuditTest, CallsThatCostMuchAreLimited) {
  for (const std::string& method : Methods()) {
    const std::string name = NameOf(method);
    const bool makes = name.starts_with("Create") || name.starts_with("Start") ||
                       name.starts_with("Precompute") || name.starts_with("Import") ||
                       name.starts_with("Suggest") || name.starts_with("Explain") ||
                       name.starts_with("Render");
    EXPECT_EQ(IsLimited(name), makes) << name;
  }
}

TEST_F(AuditTest, WhoCallsTooOftenIsRefusedAndNotForReads) {
  Server::Options options;
  options.limits = {.per_second = 1e-6, .burst = 2};
  const auto server = *Server::Start(std::move(options), *core_);
  const auto channel = server->InProcessChannel();
  const auto reason = [&](const std::string& method) {
    return GetErrorInfo(CallEmpty(channel, "/remesh.v1." + method, "id")).reason;
  };
  EXPECT_EQ(reason("StateService/CreateState"), "INVALID_FIELD");
  EXPECT_NE(reason("PlanService/CreatePlan"), "RATE_LIMITED");
  EXPECT_EQ(reason("ReshardService/StartExecution"), "RATE_LIMITED");
  EXPECT_EQ(reason("PlanService/CreatePlan"), "RATE_LIMITED");
  EXPECT_EQ(reason("PlanService/GetCacheStats"), "OK");
}

TEST(AuditLineTest, IsBoundedAndOneLineWhateverACallerWrites) {
  const std::string evil = std::string(100'000, '\n') + "\"}\xff";
  const std::string line = service::FormatAudit({.time = absl::UnixEpoch(),
                                                 .request_id = evil,
                                                 .caller_id = evil,
                                                 .caller_address = evil,
                                                 .method = evil,
                                                 .resource = std::string(100'000, '\x01'),
                                                 .status_code = "OK",
                                                 .reason = "\xff\xfe"});
  EXPECT_LE(line.size(), 4096u);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(nlohmann::json::parse(line)["type"], "audit");
}

// Regression: what a terminal obeys, or turns what follows, was written as it came.
TEST(AuditLineTest, IsOfPrintableAsciiAndLosesNothing) {
  const std::string evil = "\x7f\x1b[2J\u202egnp.exe\u0085\u00e9";
  const std::string line =
      service::FormatAudit({.time = absl::UnixEpoch(), .caller_id = evil, .resource = evil});
  for (const char c : line.substr(0, line.size() - 1)) {
    EXPECT_TRUE(absl::ascii_isprint(static_cast<unsigned char>(c))) << line;
  }
  EXPECT_EQ(nlohmann::json::parse(line)["resource"], evil);
  const std::string summary = service::FormatAuditSummary(evil, 1, absl::UnixEpoch());
  EXPECT_EQ(summary.find("\u202e"), std::string::npos) << summary;
}

}  // namespace
}  // namespace remesh::server
