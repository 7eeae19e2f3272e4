// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "worker/agent/testing/test_devices_fixture.h"

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
  // How often each host hashes what lies in its memory while it verifies its source.
  std::vector<int> ChecksToVerify() {
    std::vector<int> before, more;  // arrived bytes were checked before
    for (const TestDevice* device : devices_) before.push_back(device->checks);
    Verify();
    for (size_t h = 0; h < devices_.size(); ++h) more.push_back(devices_[h]->checks - before[h]);
    return more;
  }
  int Open(int h) { return open(Path(h).c_str(), O_RDWR | O_CLOEXEC); }
};

TEST_F(AgentSourcesTest, WhatNobodyElseCanHaveWrittenIsNotReadAgain) {
  ReadyToMove();
  if (!MappedFile::Open(Path(0), 1)->HeldByNobodyElse().ok())
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

TEST_F(AgentSourcesTest, WhatATrainerOpenedMeanwhileIsReadAgain) {
  ReadyToMove();
  Prepared();
  Transfer();
  close(Open(0));
  EXPECT_GE(ChecksToVerify()[0], 1);
  Commit();
}

}  // namespace
}  // namespace remesh::worker
