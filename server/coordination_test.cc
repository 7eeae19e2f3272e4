// SPDX-License-Identifier: Apache-2.0
// Worlds through gRPC: a whole server in this process, and members that are real streams.
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "remesh/v1/coordination.grpc.pb.h"
#include "server/testing/server_fixture.h"
#include "service/rpc/error_info.h"

namespace remesh::server {
namespace {

constexpr char kWorld[] = "jobs/a/worlds/main";
using v1::Contribution;

// A process that joins a world.
class TestMember {
 public:
  TestMember(int rank, int size) : rank_(rank), size_(size) {}
  ~TestMember() { Die(); }

  v1::JoinRequest Request() const {
    v1::JoinRequest request;
    request.set_scope(kWorld);
    request.set_min_size(size_);
    request.set_max_size(size_);
    request.set_rank(rank_);
    request.set_host(absl::StrCat("host-", rank_));
    request.set_pid(100 + rank_);
    request.set_nonce(absl::StrCat("nonce of 16 by ", rank_));
    return request;
  }

  void Join(int port, const v1::JoinRequest& request) {
    Die();
    stub_ = v1::CoordinationService::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
    context_ = std::make_unique<grpc::ClientContext>();
    stream_ = stub_->Join(context_.get(), request);
  }
  void Join(int port) { Join(port, Request()); }
  void JoinAgain(int port) {
    v1::JoinRequest request = Request();
    request.set_epoch(epoch_);
    request.set_size(size_);
    for (const v1::FinishedRound& each : finished_) *request.add_finished() = each;
    Join(port, request);
  }
  // The stream ends without a word.
  void Die() {
    if (stream_ == nullptr) return;
    context_->TryCancel();
    stream_->Finish();
    stream_ = nullptr;
  }

  // The next event but KeepAlive; none once the stream has ended.
  v1::WorldEvent Next() {
    v1::WorldEvent event;
    while (stream_->Read(&event)) {
      if (!event.has_keep_alive()) return event;
    }
    return v1::WorldEvent();
  }
  bool AwaitFormed() {
    const v1::WorldEvent event = Next();
    epoch_ = event.formed().epoch();
    return event.has_formed() && event.formed().rank() == rank_;
  }
  absl::Status End() {
    const absl::Status status = service::StatusFromGrpc(stream_->Finish());
    stream_ = nullptr;
    return status;
  }

  absl::StatusOr<v1::ExchangeResponse> Exchange(Contribution::Mode mode, const std::string& payload,
                                                int root = 0, const std::string& name = "save",
                                                int timeout_seconds = 20) {
    v1::ExchangeRequest request;
    request.set_scope(kWorld);
    request.set_epoch(epoch_);
    request.set_rank(rank_);
    request.set_nonce(Request().nonce());
    request.set_sequence(sequence_);
    request.mutable_contribution()->set_name(name);
    request.mutable_contribution()->set_mode(mode);
    request.mutable_contribution()->set_root(root);
    request.mutable_contribution()->set_payload(payload);
    request.mutable_timeout()->set_seconds(timeout_seconds);
    grpc::ClientContext context;
    v1::ExchangeResponse response;
    const absl::Status status =
        service::StatusFromGrpc(stub_->Exchange(&context, request, &response));
    if (absl::IsUnavailable(status)) return status;  // not the round's outcome
    v1::FinishedRound finished;
    finished.set_sequence(sequence_++);
    finished.set_outcome(status.ok() ? "OK" : GetErrorInfo(status).reason);
    finished.set_message(std::string(status.message()));
    finished.set_digest(response.digest());
    *finished.mutable_contribution() = request.contribution();
    if (status.ok()) finished_.clear();
    finished_.push_back(std::move(finished));
    if (!status.ok()) return status;
    return response;
  }
  absl::Status Leave() {
    v1::LeaveRequest request;
    request.set_scope(kWorld);
    request.set_epoch(epoch_);
    request.set_rank(rank_);
    request.set_nonce(Request().nonce());
    grpc::ClientContext context;
    google::protobuf::Empty response;
    return service::StatusFromGrpc(stub_->Leave(&context, request, &response));
  }
  absl::StatusOr<int64_t> AgreeStep(int64_t step) {
    v1::AgreeStepRequest request;
    request.set_scope(kWorld);
    request.set_epoch(epoch_);
    request.set_rank(rank_);
    request.set_nonce(Request().nonce());
    request.set_step(step);
    grpc::ClientContext context;
    v1::AgreeStepResponse response;
    const absl::Status status =
        service::StatusFromGrpc(stub_->AgreeStep(&context, request, &response));
    if (!status.ok()) return status;
    return response.step();
  }

  int64_t epoch() const { return epoch_; }

 private:
  const int rank_;
  const int size_;
  int64_t epoch_ = 0;
  int64_t sequence_ = 0;
  std::vector<v1::FinishedRound> finished_;
  std::unique_ptr<v1::CoordinationService::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReader<v1::WorldEvent>> stream_;
};

using Result = absl::StatusOr<v1::ExchangeResponse>;

class CoordinationTest : public ServerFixture {
 protected:
  void Form(int size) {
    for (int rank = 0; rank < size; ++rank) {
      members_.push_back(std::make_unique<TestMember>(rank, size));
      members_.back()->Join(server_->port());
    }
    for (auto& member : members_) ASSERT_TRUE(member->AwaitFormed());
  }

  // What `call(member, rank)` returned on each member but those without, all at once.
  template <typename Call>
  auto OnAll(Call call, int without = -1) {
    using Value = decltype(call(*members_[0], 0));
    std::vector<std::future<Value>> calls;
    for (int rank = 0; rank < static_cast<int>(members_.size()); ++rank) {
      if (rank == without) continue;
      calls.push_back(
          std::async(std::launch::async, [&, rank] { return call(*members_[rank], rank); }));
    }
    std::vector<Value> values;
    for (auto& each : calls) values.push_back(each.get());
    return values;
  }

  std::vector<std::unique_ptr<TestMember>> members_;
};

TEST_F(CoordinationTest, FourMembersExchangeInEveryMode) {
  Form(4);
  for (const Result& result :
       OnAll([](TestMember&member, int) { return member.Exchange(Contribution::BARRIER, ""); })) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->payloads_size(), 0);
    EXPECT_EQ(result->digest().size(), 16u);
  }
  for (const Result& result : OnAll([](TestMember&member, int rank) {
         return member.Exchange(Contribution::GATHER, absl::StrCat("from ", rank), -1);
       })) {
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->payloads_size(), 4);
    EXPECT_EQ(result->payloads(3), "from 3");
  }
  const auto gathered = OnAll([](TestMember& member, int rank) {
    return member.Exchange(Contribution::GATHER, absl::StrCat("from ", rank), 2);
  });
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(gathered[rank].ok()) << gathered[rank].status();
    EXPECT_EQ(gathered[rank]->payloads_size(), rank == 2 ? 4 : 0);
    EXPECT_EQ(gathered[rank]->digest(), gathered[0]->digest());
  }
  for (const Result& result : OnAll([](TestMember&member, int rank) {
         return member.Exchange(Contribution::BROADCAST, rank == 1 ? "address" : "", 1);
       })) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->payloads(0), "address");
  }
  for (const Result& result : OnAll([](TestMember&member, int) {
         return member.Exchange(Contribution::AGREE, std::string(32, 'd'));
       })) {
    EXPECT_TRUE(result.ok()) << result.status();
  }
}

TEST_F(CoordinationTest, DifferencesAreNamedToAll) {
  Form(3);
  for (const Result& result : OnAll([](TestMember&member, int rank) {
         return member.Exchange(Contribution::BARRIER, "", 0, rank == 2 ? "restore" : "save");
       })) {
    EXPECT_EQ(result.status().message(),
              "members are at different calls: 0@host-0, 1@host-1 at barrier \"save\"; 2@host-2 at "
              "barrier \"restore\"");
    EXPECT_EQ(GetErrorInfo(result.status()).reason, "NAME_MISMATCH");
  }
  for (const Result& result : OnAll([](TestMember&member, int rank) {
         return member.Exchange(Contribution::AGREE, std::string(16, 's') + std::string(16, 'a') +
                                                         std::string(16, rank == 1 ? 'b' : 'a'));
       })) {
    EXPECT_EQ(result.status().message(),
              "save: values differ in group 1 of leaves; equal ones at 0@host-0, 2@host-2 | "
              "1@host-1");
  }
  for (const Result& result :
       OnAll([](TestMember&member,
                int) { return member.Exchange(Contribution::BARRIER, "", 0, "save", 1); },
             /*without=*/0)) {
    EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(result.status().message(), "save: not all members came in time; absent: 0@host-0");
  }
}

TEST_F(CoordinationTest, ADeadMemberIsNamedToTheOthersAndEndsTheWorld) {
  Form(4);
  auto others = std::async(std::launch::async, [&] {
    return OnAll([](TestMember& member, int) { return member.Exchange(Contribution::BARRIER, ""); },
                 /*without=*/2);
  });
  members_[2]->Die();
  for (const Result& result : others.get()) {
    EXPECT_EQ(GetErrorInfo(result.status()).reason, "MEMBER_LOST");
    EXPECT_EQ(result.status().message(), "2@host-2 is lost: its stream ended");
  }
  const v1::WorldEvent lost = members_[0]->Next();
  EXPECT_EQ(lost.member_lost().rank(), 2);
  EXPECT_EQ(lost.member_lost().host(), "host-2");
  EXPECT_TRUE(members_[0]->Next().has_over());
  EXPECT_FALSE(members_[0]->Next().has_formed());
  EXPECT_TRUE(members_[0]->End().ok());

  // The next world has a higher epoch, and from then on the older one is stale.
  const int64_t ended = members_[0]->epoch();
  EXPECT_TRUE(core_->fences().CheckFence(kWorld, ended).ok());
  for (auto& member : members_) member->Join(server_->port());
  for (auto& member : members_) ASSERT_TRUE(member->AwaitFormed());
  EXPECT_GT(members_[0]->epoch(), ended);
  const absl::Status stale = core_->fences().CheckFence(kWorld, ended);
  EXPECT_EQ(GetErrorInfo(stale).metadata["epoch"], absl::StrCat(members_[0]->epoch()));
}

TEST_F(CoordinationTest, AnotherProcessDoesNotDisplaceALivingMember) {
  Form(2);
  TestMember other(1, 2);
  v1::JoinRequest request = other.Request();
  request.set_nonce("another 16 bytes");
  other.Join(server_->port(), request);
  other.Next();
  const absl::Status status = other.End();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(status.message(), "rank 1 is taken by process 101 on host-1, which lives");
  EXPECT_EQ(GetErrorInfo(status).metadata["host"], "host-1");
}

TEST_F(CoordinationTest, LeavingIsNoLoss) {
  Form(2);
  EXPECT_TRUE(members_[0]->Leave().ok());
  const Result result = members_[1]->Exchange(Contribution::BARRIER, "");
  EXPECT_EQ(GetErrorInfo(result.status()).reason, "MEMBER_LEFT");
  EXPECT_TRUE(members_[1]->Leave().ok());
}

TEST_F(CoordinationTest, MembersFinishTheirRoundAfterTheServersRestart) {
  Form(4);
  OnAll([](TestMember& member, int) { return member.Exchange(Contribution::BARRIER, ""); });
  const int64_t epoch = members_[0]->epoch();
  // Three wait in a round when the server goes away.
  auto waiting = std::async(std::launch::async, [&] {
    return OnAll([](TestMember& member, int) { return member.Exchange(Contribution::BARRIER, ""); },
                 /*without=*/3);
  });
  ASSERT_TRUE(Eventually([&] {
    v1::ListWorldsResponse worlds;
    grpc::ClientContext context;
    const auto stub = v1::CoordinationService::NewStub(channel_);
    stub->ListWorlds(&context, v1::ListWorldsRequest(), &worlds);
    return worlds.worlds_size() == 1 && worlds.worlds(0).waiting_size() == 1 &&
           worlds.worlds(0).waiting(0).absent_size() == 1 &&
           worlds.worlds(0).waiting(0).absent(0) == 3;
  }));
  StopServer();
  for (const Result& result : waiting.get()) EXPECT_TRUE(absl::IsUnavailable(result.status()));
  StartServer();
  EXPECT_TRUE(core_->fences().CheckFence(kWorld, epoch).ok());
  for (auto& member : members_) member->JoinAgain(server_->port());
  for (auto& member : members_) ASSERT_TRUE(member->AwaitFormed());
  EXPECT_EQ(members_[0]->epoch(), epoch);
  for (const Result& result :
       OnAll([](TestMember&member, int) { return member.Exchange(Contribution::BARRIER, ""); })) {
    EXPECT_TRUE(result.ok()) << result.status();
  }
}

// The whole disk is as it was a world ago, so the journal knows nothing of that world's epoch.
TEST_F(CoordinationTest, AnEpochIsNotGivenTwiceAfterTheJournalWentBack) {
  const std::string kept = directory_.string() + ".kept";
  Form(1);
  const int64_t earlier = members_[0]->epoch();
  std::filesystem::copy(directory_, kept);
  ASSERT_TRUE(members_[0]->Leave().ok());
  members_[0]->Join(server_->port());
  ASSERT_TRUE(members_[0]->AwaitFormed());
  const int64_t forgotten = members_[0]->epoch();
  ASSERT_GT(forgotten, earlier);
  members_[0]->Die();
  StopServer();
  std::filesystem::remove_all(directory_);
  std::filesystem::rename(kept, directory_);
  std::string uid;
  {
    auto journal = Journal::Open((directory_ / "journal.db").string(), {});
    ASSERT_TRUE(journal.ok()) << journal.status();
    uid = (*journal)->past().journal_uid;
  }
  StartServer({.accept_older = uid});
  ASSERT_TRUE(Ask<v1::State>([&](auto* context, auto* response) {
                v1::GetStateRequest request;
                request.set_name(kState);
                return states_->GetState(context, request, response);
              })
                  .status()
                  .code() == absl::StatusCode::kNotFound);
  EXPECT_FALSE(core_->fences().CheckFence(kWorld, earlier).ok()) << "a world formed after it";
  StopServer();
  StartServer();  // all that is on disk
  EXPECT_FALSE(core_->fences().CheckFence(kWorld, earlier).ok());
  members_[0]->Join(server_->port());
  ASSERT_TRUE(members_[0]->AwaitFormed());
  EXPECT_GT(members_[0]->epoch(), forgotten);
}

TEST_F(CoordinationTest, ABarrierDoesNotWaitForTheController) {
  Form(2);
  const Holding holding(*core_);
  for (const Result& result :
       OnAll([](TestMember&member, int) { return member.Exchange(Contribution::BARRIER, ""); })) {
    EXPECT_TRUE(result.ok()) << result.status();
  }
}

TEST_F(CoordinationTest, AllMembersAgreeOnTheStepToSaveAt) {
  Form(3);
  v1::ReportPreemptionRequest report;
  report.set_scope(kWorld);
  report.set_by("SIGTERM in process 101");
  report.set_next_size(2);
  grpc::ClientContext context;
  google::protobuf::Empty empty;
  const auto stub = v1::CoordinationService::NewStub(channel_);
  ASSERT_TRUE(stub->ReportPreemption(&context, report, &empty).ok());
  for (auto& member : members_) EXPECT_EQ(member->Next().preempt().next_size(), 2);
  for (const auto& step :
       OnAll([](TestMember&member, int rank) { return member.AgreeStep(10 + rank); })) {
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_EQ(*step, 13);
  }
}

TEST_F(CoordinationTest, BadRequestsNameTheField) {
  TestMember member(0, 1);
  v1::JoinRequest request = member.Request();
  request.set_nonce("short");
  member.Join(server_->port(), request);
  member.Next();
  EXPECT_EQ(member.End().message(), "nonce: value \"5 bytes\" must be 16 bytes");
  request = member.Request();
  request.set_min_size(2);
  member.Join(server_->port(), request);
  member.Next();
  EXPECT_EQ(member.End().message(), "min_size: value \"2\" must be 1 to 1");

  Form(1);
  EXPECT_EQ(members_[0]->Exchange(Contribution::MODE_UNSPECIFIED, "").status().message(),
            "contribution.mode: value \"0\" must be BARRIER, AGREE, BROADCAST or GATHER");
  EXPECT_EQ(
      GetErrorInfo(
          members_[0]->Exchange(Contribution::GATHER, std::string((4 << 20) + 1, 'x')).status())
          .reason,
      "TOO_LARGE");
}

}  // namespace
}  // namespace remesh::server
