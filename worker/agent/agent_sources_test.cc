// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "base/error.h"
#include "service/rpc/error_info.h"
#include "worker/agent/testing/test_devices_fixture.h"
#include "worker/store/testing/no_more_files.h"

namespace remesh::worker {
namespace {

// What origins do before they say Verified.
class AgentSourcesTest : public TestDevicesTest {
 protected:
  std::string Path(int h) {
    const auto shards = hosts_[h]->GetShards(1);
    EXPECT_TRUE(shards.ok()) << shards.status();
    return shards->shards(0).path();
  }
  // How often each host hashes what is in its memory while it verifies its source.
  std::vector<int> ChecksToVerify() {
    std::vector<int> before, more;  // arrived bytes were checked before
    for (const TestDevice* device : devices_) before.push_back(device->checks);
    Verify();
    for (size_t h = 0; h < devices_.size(); ++h) more.push_back(devices_[h]->checks - before[h]);
    return more;
  }
  // Cuts a host's source and gives it its length again. pages_come_back:
  // somebody reads it then.
  void CutAndGrow(int h, bool pages_come_back) {
    const std::string path = Path(h);
    const auto bytes = std::filesystem::file_size(path);
    std::filesystem::resize_file(path, 0);
    std::filesystem::resize_file(path, bytes);
    if (pages_come_back) ReadAll(h);
  }
  void ReadAll(int h) {
    const auto bytes = std::filesystem::file_size(Path(h));
    const int fd = Open(h);
    void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    close(fd);
    ASSERT_NE(mapped, MAP_FAILED);
    munmap(mapped, bytes);
  }
  std::string WhyFailed(int h) {
    const auto failed = hosts_[h]->WaitFor(v1::AttachRequest::kFailed);
    if (!failed) return "did not fail";
    return GetErrorInfo(service::StatusFromProto(failed->failed().error())).reason;
  }
  int Open(int h) { return open(Path(h).c_str(), O_RDWR | O_CLOEXEC); }
};

TEST_F(AgentSourcesTest, WhatNoOtherProcessCanHaveWrittenIsNotReadAgain) {
  ReadyToMove();
  if (!MappedFile::Open(Path(0), 1)->HeldByNoOther().ok())
    GTEST_SKIP() << "no leases on " << directory_;
  Prepared();
  Transfer();
  EXPECT_EQ(ChecksToVerify(), std::vector<int>({0, 0}));
  Commit();
}

TEST_F(AgentSourcesTest, WhatATrainerHasOpenIsReadAgain) {
  ReadyToMove();
  const int trainer = Open(0);
  ASSERT_GE(trainer, 0);
  Prepared();
  Transfer();
  close(trainer);
  EXPECT_GE(ChecksToVerify()[0], 1);
  Commit();
}

TEST_F(AgentSourcesTest, WhatATrainerOpenedDuringTheTransferIsReadAgain) {
  ReadyToMove();
  Prepared();
  Transfer();
  close(Open(0));
  EXPECT_GE(ChecksToVerify()[0], 1);
  Commit();
}

// Regression: it came as zeros.
TEST_F(AgentSourcesTest, ASourceThatIsCutAfterItWasLookedAtFailsTheMove) {
  ReadyToMove();
  Prepared();
  CutAndGrow(0, /*pages_come_back=*/false);
  Grant(0);
  EXPECT_EQ(WhyFailed(0), "BUFFER_TRUNCATED");
  Abort();
}

// Then nothing is missing any more, but the content is gone.
TEST_F(AgentSourcesTest, AModifiedSourceIsNoSourceUntilItIsWrittenAgain) {
  ReadyToMove();
  Prepared();
  CutAndGrow(0, /*pages_come_back=*/true);
  Grant(0);
  EXPECT_EQ(WhyFailed(0), "SOURCE_MODIFIED");
  Abort();
  ++attempt_;
  Prepare();
  EXPECT_EQ(WhyFailed(0), "SOURCE_MODIFIED");
  Abort();
  for (auto& host : hosts_) ASSERT_TRUE(host->Unseal().ok());
  ReadyToMove();
  ++attempt_;
  Prepared();
  Transfer();
  Verify();
  Commit();
}

// Regression: a worker that was restarted took the zeros for what was sealed.
TEST_F(AgentSourcesTest, AModifiedSourceIsNoSourceForTheNextLifeEither) {
  ReadyToMove();
  Prepared();
  CutAndGrow(0, /*pages_come_back=*/true);
  Grant(0);
  EXPECT_EQ(WhyFailed(0), "SOURCE_MODIFIED");
  hosts_[0].reset();  // at once: before anything is stopped
  StartHost(0);
  ++attempt_;
  Prepare();
  EXPECT_EQ(WhyFailed(0), "SOURCE_MODIFIED");
}

// Regression: the move failed, and the next one took the zeros for what was sealed.
TEST_F(AgentSourcesTest, AHoleThatIsThereAtPrepareIsRememberedThoughItIsFilledLater) {
  ReadyToMove();
  CutAndGrow(0, /*pages_come_back=*/false);
  Prepare();
  EXPECT_EQ(WhyFailed(0), "BUFFER_TRUNCATED");
  Abort();
  ReadAll(0);
  ++attempt_;
  Prepare();
  EXPECT_EQ(WhyFailed(0), "SOURCE_MODIFIED");
  Abort();
  for (auto& host : hosts_) ASSERT_TRUE(host->Unseal().ok());
  ReadyToMove();
  ++attempt_;
  Prepared();
}

// Regression: what was changed after it was looked at could go unseen.
TEST_F(AgentSourcesTest, ASourceThatCannotBeWatchedIsRefused) {
  ReadyToMove();
  Prepared();
  Abort();  // the source stays mapped
  ++attempt_;
  std::promise<void> may_fill;
  const std::shared_future<void> until = may_fill.get_future().share();
  for (auto& host : hosts_) host->files.Post([until] { until.wait(); });
  {
    const NoMoreFiles no_more;
    Prepare();
  }
  may_fill.set_value();
  EXPECT_EQ(WhyFailed(0), "WATCHES_EXHAUSTED");
  Abort();
  ++attempt_;
  Prepared();
}

}  // namespace
}  // namespace remesh::worker
