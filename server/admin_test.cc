// SPDX-License-Identifier: Apache-2.0
// Requests of operators to a server, through gRPC.
#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "remesh/v1/admin.grpc.pb.h"
#include "server/journal/journal_check.h"
#include "server/testing/server_fixture.h"
#include "service/process/sha256.h"
#include "service/rpc/error_info.h"

namespace remesh::server {
namespace {

class AdminTest : public ServerFixture {
 protected:
  using Part = v1::BackUpJournalResponse;
  struct Download {
    std::vector<Part> parts;
    absl::Status end;

    std::string Bytes() const {
      std::string bytes;
      for (const Part& part : parts) bytes += part.data();
      return bytes;
    }
  };

  Download BackUp() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const auto reader = admin()->BackUpJournal(&context, {});
    Download download;
    for (Part part; reader->Read(&part);) download.parts.push_back(part);
    download.end = service::StatusFromGrpc(reader->Finish());
    return download;
  }
  std::unique_ptr<v1::AdminService::Stub> admin() { return v1::AdminService::NewStub(channel_); }

  // Journals three megabytes.
  void CreateLargeState() {
    v1::State state = MakeState(kRows);
    state.set_name("jobs/a/states/large");
    v1::StateArray array = state.spec().arrays(0);
    state.mutable_spec()->clear_arrays();
    for (int i = 0; i < 3000; ++i) {
      array.set_name(absl::StrCat(std::string(1000, 'n'), i));
      *state.mutable_spec()->add_arrays() = array;
    }
    const auto made = Create(state);
    ASSERT_TRUE(made.ok()) << made.status();
  }
  bool HasCopy() const { return std::filesystem::exists(directory_ / "journal.db.backup.tmp"); }
};

TEST_F(AdminTest, ABackupIsTheJournalWithItsDigest) {
  AttachWorkers();
  CreateReadyState();
  CreateLargeState();
  const Download got = BackUp();
  ASSERT_TRUE(got.end.ok()) << got.end;
  ASSERT_GT(got.parts.size(), 4u);
  const v1::JournalHeader& header = got.parts.front().header();
  const std::string bytes = got.Bytes();
  EXPECT_EQ(header.file_bytes(), std::ssize(bytes));
  service::Sha256 sha256;
  sha256.Add(bytes);
  EXPECT_EQ(got.parts.back().trailer().sha256(), sha256.Hex());

  const std::string file = directory_ / "saved.db";
  std::ofstream(file, std::ios::binary) << bytes;
  const auto checked = CheckJournal(file);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->contents.head.journal_uid, header.journal_uid());
  EXPECT_EQ(checked->contents.head.cluster_uid, header.cluster_uid());
  EXPECT_EQ(checked->contents.head.sequence, header.sequence());
  EXPECT_FALSE(HasCopy());
}

// The journal keeps working during a backup, and no second copy may fill its disk.
TEST_F(AdminTest, ACallerWhoDoesNotReadHoldsUpNoOtherCaller) {
  AttachWorkers();
  CreateLargeState();
  grpc::ClientContext context;
  const auto reader = admin()->BackUpJournal(&context, {});
  Part first;
  ASSERT_TRUE(reader->Read(&first));
  EXPECT_FALSE(HasCopy());  // it has no name any more
  EXPECT_EQ(GetErrorInfo(BackUp().end).reason, "BACKUP_RUNS");
  v1::State another = MakeState(kRows);
  another.set_name("jobs/a/states/another");
  EXPECT_TRUE(Create(another).ok());
  context.TryCancel();
  EXPECT_FALSE(reader->Finish().ok());
  EXPECT_TRUE(Eventually([&] { return BackUp().end.ok(); }));
}

}  // namespace
}  // namespace remesh::server
