// SPDX-License-Identifier: Apache-2.0
// Which planner may command, and what is on disk before a command is carried out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "worker/agent/refusal.h"
#include "worker/agent/testing/agent_fixture.h"

namespace remesh::worker {
namespace {

class AgentHandshakeTest : public AgentTest {
 protected:
  std::string RecordPath(int host) { return absl::StrCat(directory_, "/host-", host, "/agent"); }

  static v1::JournalPosition Position(const std::string& leadership, uint64_t sequence) {
    v1::JournalPosition position;
    position.set_cluster_uid("ours");
    position.set_leadership(leadership);
    position.set_sequence(sequence);
    return position;
  }
  void Retire(const v1::JournalPosition& position) {
    Command(0, [&](v1::AttachResponse& c) {
      c.mutable_retire()->set_state(kState);
      c.mutable_retire()->set_generation(1);
      *c.mutable_position() = position;
    });
  }
};

TEST_F(AgentHandshakeTest, TheIncarnationIsThePlannersAndNotTheClocks) {
  v1::Register first = hosts_[0]->Attach();
  EXPECT_EQ(first.incarnation(), 0);
  EXPECT_EQ(first.last_incarnation(), 0);
  EXPECT_EQ(first.host_secret().size(), 32u);
  EXPECT_FALSE(first.has_position());
  Welcome(0, "ours", 7);
  const v1::Register again = hosts_[0]->Attach();
  EXPECT_EQ(again.incarnation(), 7);
  EXPECT_EQ(again.last_incarnation(), 7);
  hosts_[0].reset();
  StartHost(0);
  const v1::Register next = hosts_[0]->Attach();
  EXPECT_EQ(next.incarnation(), 0);
  EXPECT_EQ(next.last_incarnation(), 7);
  EXPECT_EQ(next.host_secret(), first.host_secret());
  EXPECT_EQ(next.position().cluster_uid(), "ours");
}

TEST_F(AgentHandshakeTest, TheSecretIsForTheWorkerAlone) {
  struct stat info;
  ASSERT_EQ(stat(RecordPath(0).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  Welcome(0, "ours");
  ASSERT_EQ(stat(RecordPath(0).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(AgentHandshakeTest, ThePositionIsOnDiskBeforeACommandIsCarriedOut) {
  ReadyToMove();
  Retire(Position("a", 5));
  EXPECT_TRUE(hosts_[0]->WaitFor(v1::AttachRequest::kRetired));
  Retire(Position("a", 4));  // an earlier position, which is not recorded
  hosts_[0].reset();
  StartHost(0);
  EXPECT_EQ(hosts_[0]->Attach().position().sequence(), 5u);
  Retire(Position("b", 2));
  EXPECT_EQ(hosts_[0]->Attach().position().leadership(), "b");
  EXPECT_EQ(hosts_[0]->Attach().position().sequence(), 2u);
}

TEST_F(AgentHandshakeTest, APositionThatCannotBeWrittenIsNotActedOn) {
  ReadyToMove();
  // Folders take all names that a write could use: taking away permissions would not stop root.
  for (const char* suffix : {".spare0", ".spare1", ".new"}) {
    std::filesystem::remove(RecordPath(0) + suffix);
    std::filesystem::create_directory(RecordPath(0) + suffix);
  }
  Retire(Position("a", 5));
  EXPECT_TRUE(hosts_[0]->GetShards(1).ok());
  EXPECT_EQ(hosts_[0]->disconnects.size(), 1u);
  EXPECT_FALSE(hosts_[0]->Attach().has_position());
}

TEST_F(AgentHandshakeTest, AnotherClustersPlannerIsRefused) {
  Welcome(0, "ours");
  ReadyToMove();
  hosts_[0]->Attach();
  Command(
      0, [](v1::AttachResponse& c) { c.mutable_welcome()->set_cluster_uid("theirs"); },
      /*epoch=*/99);
  Command(
      0, [](v1::AttachResponse& c) { c.mutable_forget_state()->set_state(kState); },
      /*epoch=*/99);
  EXPECT_TRUE(hosts_[0]->GetShards(1).ok());
  ASSERT_EQ(hosts_[0]->disconnects.size(), 1u);
  const ErrorInfo why = GetErrorInfo(hosts_[0]->disconnects[0]);
  EXPECT_EQ(why.reason, "OTHER_CLUSTER");
  EXPECT_EQ(why.metadata.at("cluster_uid"), "ours");
  EXPECT_EQ(why.metadata.at("planner_cluster_uid"), "theirs");
  // The other planner's epoch is not remembered either: the own planner goes on.
  hosts_[0]->Attach();
  Welcome(0, "ours");
  EXPECT_EQ(hosts_[0]->disconnects.size(), 1u);
}

TEST_F(AgentHandshakeTest, BuffersNameTheirClusterWhenTheRecordIsLost) {
  Welcome(0, "ours");
  ReadyToMove();
  EXPECT_EQ(hosts_[0]->Attach().manifests(0).cluster_uid(), "ours");
  hosts_[0].reset();
  std::filesystem::remove(RecordPath(0));
  StartHost(0);
  Welcome(0, "theirs");
  EXPECT_EQ(hosts_[0]->disconnects.size(), 1u);
  hosts_[0]->Attach();
  Welcome(0, "ours");
  EXPECT_EQ(hosts_[0]->disconnects.size(), 1u);
}

TEST_F(AgentHandshakeTest, AttemptsAreNamedFromTheirFirstMomentOn) {
  ReadyToMove();
  absl::Notification go;
  hosts_[0]->files.Post([&] { go.WaitForNotification(); });
  Prepare();
  const v1::Register attaching = hosts_[0]->Attach();
  ASSERT_EQ(attaching.attempts_size(), 1);
  EXPECT_EQ(attaching.attempts(0).execution(), Attempt().execution());
  EXPECT_EQ(attaching.attempts(0).attempt(), 1);
  Abort();
  EXPECT_EQ(hosts_[0]->Attach().attempts_size(), 0);
  go.Notify();
  hosts_[0]->files.Stop();  // it waited for `go`
}

TEST(RefusalTest, OnlyAnotherProcessOfTheHostEndsThisOne) {
  const auto refusal = [](const char* reason) {
    return RefusalOf(MakeError(absl::StatusCode::kPermissionDenied, "no", {reason, {}}), "a");
  };
  EXPECT_TRUE(refusal("SUPERSEDED")->superseded);
  for (const char* reason : {"OTHER_CLUSTER", "JOIN_TOKEN", "HOST_SECRET"}) {
    EXPECT_FALSE(refusal(reason)->superseded) << reason;
    EXPECT_NE(refusal(reason)->remedy, "") << reason;
  }
  EXPECT_THAT(refusal("HOST_SECRET")->remedy, ::testing::HasSubstr("remeshctl workers reset a"));
  EXPECT_EQ(refusal("UNAVAILABLE"), std::nullopt);
}

}  // namespace
}  // namespace remesh::worker
