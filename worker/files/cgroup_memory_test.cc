// SPDX-License-Identifier: Apache-2.0
#include "worker/files/cgroup_memory.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace remesh::worker {
namespace {

class CgroupMemoryTest : public ::testing::Test {
 protected:
  CgroupMemoryTest() {
    std::string path = ::testing::TempDir() + "/remesh_cgroup.XXXXXX";
    root_ = mkdtemp(path.data());
  }
  ~CgroupMemoryTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& file, const std::string& text) {
    const std::filesystem::path path(root_ + "/" + file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  std::string root_;
};

TEST_F(CgroupMemoryTest, NoneWithoutALimit) {
  EXPECT_EQ(FindCgroupMemory("0::/\n", root_), std::nullopt);
  Write("memory.max", "max\n");
  Write("memory.current", "5\n");
  EXPECT_EQ(FindCgroupMemory("0::/\n", root_), std::nullopt);
  EXPECT_EQ(FindCgroupMemory("nonsense\n::\n0::..\n", root_), std::nullopt);
  Write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("memory/memory.usage_in_bytes", "5\n");
  EXPECT_EQ(FindCgroupMemory("4:memory:/\n", root_), std::nullopt);
}

TEST_F(CgroupMemoryTest, TheLimitThatLeavesLeastOfTheWholeChain) {
  Write("pod/memory.max", "1000\n");
  Write("pod/memory.current", "900\n");
  Write("pod/container/memory.max", "500\n");
  Write("pod/container/memory.current", "100\n");
  const auto found = FindCgroupMemory("0::/pod/container/deeper\n", root_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->folder, root_ + "/pod");
  EXPECT_EQ(found->limit_bytes, 1000);
  EXPECT_EQ(found->used_bytes, 900);
  Write("pod/memory.current", "200\n");
  EXPECT_EQ(FindCgroupMemory("0::/pod/container/deeper\n", root_)->limit_bytes, 500);
}

TEST_F(CgroupMemoryTest, ThePageCacheIsNotInUse) {
  Write("memory.max", "1000\n");
  Write("memory.current", "990\n");
  Write("memory.stat", "anon 10\nfile 880\ninactive_file 600\nactive_file 180\nshmem 100\n");
  EXPECT_EQ(FindCgroupMemory("0::/\n", root_)->used_bytes, 210);
}

TEST_F(CgroupMemoryTest, VersionOneToo) {
  Write("memory/job/memory.limit_in_bytes", "4096\n");
  Write("memory/job/memory.usage_in_bytes", "2000\n");
  Write("memory/job/memory.stat", "cache 1500\ntotal_inactive_file 400\ntotal_active_file 100\n");
  const auto found = FindCgroupMemory("5:devices:/x\n4:cpu,memory:/job\n0::/\n", root_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->limit_bytes, 4096);
  EXPECT_EQ(found->used_bytes, 1500);
}

TEST_F(CgroupMemoryTest, AContainerThatSeesTheHostsPathUsesItsRoot) {
  Write("memory.max", "77\n");
  Write("memory.current", "7\n");
  EXPECT_EQ(FindCgroupMemory("0::/../../kubepods/pod1\n", root_)->limit_bytes, 77);
  EXPECT_EQ(FindCgroupMemory("0::/kubepods/pod1\n", root_)->limit_bytes, 77);
}

TEST_F(CgroupMemoryTest, OfThisProcess) {
  // Whatever it is, it can be read.
  const auto own = OwnCgroupMemory();
  if (own) {
    EXPECT_GT(own->limit_bytes, 0);
  }
}

}  // namespace
}  // namespace remesh::worker
