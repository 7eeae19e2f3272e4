// SPDX-License-Identifier: Apache-2.0
#include "service/tls/credentials.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>

#include "remesh/v1/plan.grpc.pb.h"
#include "service/testing/certificate_folder.h"
#include "service/testing/test_authority.h"
#include "service/tls/authorization.h"

namespace remesh::service {
namespace {

// Answers with the caller's identity.
class WhoAmI : public v1::PlanService::Service {
  grpc::Status GetPlan(grpc::ServerContext* context, const v1::GetPlanRequest*,
                       v1::Plan* response) override {
    response->set_name(IdentityOf(*context).name);
    return grpc::Status::OK;
  }
};

class CredentialsTest : public testing::Test {
 protected:
  static constexpr char kJob[] = "spiffe://remesh.local/job/a/trainer";

  CredentialsTest() {
    folder_.Write(authority_.Credentials("spiffe://remesh.local/server"));
    keeper_ = *CertificateKeeper::Start({.files = folder_.files()}, metrics_);
    credentials_ = MakeServerCredentials(keeper_);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", credentials_, &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~CredentialsTest() override { server_->Shutdown(); }

  // A call on a connection of its own.
  grpc::Status Call(const Certificates* certificates, v1::Plan* plan) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    const auto stub = v1::PlanService::NewStub(grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(port_), MakeChannelCredentials(certificates), arguments));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return stub->GetPlan(&context, {}, plan);
  }

  const TestAuthority authority_;
  const CertificateFolder folder_;
  prometheus::Registry registry_;
  TlsMetrics metrics_{registry_};
  std::shared_ptr<CertificateKeeper> keeper_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  WhoAmI service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(CredentialsTest, TheServerKnowsWhoCalls) {
  const Certificates job = authority_.Credentials(kJob);
  v1::Plan plan;
  const grpc::Status status = Call(&job, &plan);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(plan.name(), kJob);
}

TEST_F(CredentialsTest, ACommonNameNamesNoCaller) {
  const Certificates unnamed = authority_.Credentials("");
  v1::Plan plan;
  EXPECT_TRUE(Call(&unnamed, &plan).ok());
  EXPECT_EQ(plan.name(), "");
}

TEST_F(CredentialsTest, PlainTextAndOtherAuthoritiesAreKeptOut) {
  v1::Plan plan;
  EXPECT_EQ(Call(nullptr, &plan).error_code(), grpc::StatusCode::UNAVAILABLE);
  const TestAuthority other("other");
  Certificates foreign = other.Credentials(kJob);
  EXPECT_EQ(Call(&foreign, &plan).error_code(), grpc::StatusCode::UNAVAILABLE);
  foreign.ca = authority_.certificate();
  EXPECT_EQ(Call(&foreign, &plan).error_code(), grpc::StatusCode::UNAVAILABLE);
  Certificates expired = authority_.Credentials(kJob);
  const auto issued = authority_.Issue({.uri = kJob, .not_after = absl::FromUnixSeconds(1e9)});
  expired.certificate = issued.certificate;
  expired.key = issued.key;
  EXPECT_EQ(Call(&expired, &plan).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(CredentialsTest, NewConnectionsHaveTheNewCertificates) {
  const TestAuthority second("second");
  Certificates job = second.Credentials(kJob);
  v1::Plan plan;
  EXPECT_FALSE(Call(&job, &plan).ok());
  folder_.Write(second.Credentials("spiffe://remesh.local/server"));
  keeper_->Reload();
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (!Call(&job, &plan).ok() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_TRUE(Call(&job, &plan).ok());
  const Certificates before = authority_.Credentials(kJob);
  EXPECT_FALSE(Call(&before, &plan).ok());
}

}  // namespace
}  // namespace remesh::service
