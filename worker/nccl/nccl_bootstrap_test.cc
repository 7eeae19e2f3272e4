// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/nccl_bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "worker/transport/testing/memory_transport.h"

namespace remesh::worker {
namespace {

// Four hosts in an attempt, of which 1, 2 and 3 have ranks.
class NcclBootstrapTest : public testing::Test {
 protected:
  NcclBootstrapTest() {
    std::vector<Peer> table;
    for (int i = 0; i < 4; ++i) {
      transports_.push_back(fabric_.NewTransport(absl::StrCat("host", i)));
      table.push_back({transports_[i]->address(), absl::StrCat("token of host ", i, ".")});
    }
    for (int i = 0; i < 4; ++i) groups_.push_back(*transports_[i]->Open(i, table));
    for (int i = 0; i < 4; ++i) {
      bootstraps_.push_back(i == 0 ? nullptr
                                   : std::make_unique<NcclBootstrap>(
                                         groups_[i].get(), i, i - 1, std::vector<int>{1, 2, 3},
                                         std::vector<std::string>{"a", "b", "c", "d"}, [] {}));
    }
  }
  ~NcclBootstrapTest() override {
    bootstraps_.clear();  // its operations have not ended
    for (auto& group : groups_) group->Abort();
    Progress();
  }

  void Start(int host, int version, int ids) {
    std::optional<nccl::UniqueId> own;
    if (bootstraps_[host]->MakesId(ids)) {
      own.emplace();
      std::memset(own->bytes, 'a' + host, sizeof(own->bytes));
    }
    bootstraps_[host]->Start(version, ids, own);
    Progress();
  }
  void Progress() {
    for (int round = 0; round < 5; ++round) {
      for (auto& transport : transports_) transport->Progress();
    }
  }
  // The first letters of the ids that the host has.
  std::string Ids(int host) {
    std::string letters;
    if (const auto ids = bootstraps_[host]->ids(); ids.has_value()) {
      for (const nccl::UniqueId& id : *ids) letters += id.bytes[0];
    }
    return letters;
  }

  MemoryFabric fabric_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::unique_ptr<PeerGroup>> groups_;
  std::vector<std::unique_ptr<NcclBootstrap>> bootstraps_;
};

TEST_F(NcclBootstrapTest, AllHaveTheFirstHostsIdOnceAllAreThere) {
  for (int host : {3, 1}) Start(host, 22809, 1);
  EXPECT_EQ(Ids(1), "") << "one is missing";
  Start(2, 22809, 1);
  for (int host : {1, 2, 3}) EXPECT_EQ(Ids(host), "b") << host;
}

TEST_F(NcclBootstrapTest, SeveralHostsMakeIds) {
  for (int host : {1, 2, 3}) Start(host, 22809, 2);
  for (int host : {1, 2, 3}) EXPECT_EQ(Ids(host), "bc") << host;
}

TEST_F(NcclBootstrapTest, ATimeOutNamesTheAbsent) {
  for (int host : {1, 3}) Start(host, 22809, 1);
  const ErrorInfo info = GetErrorInfo(bootstraps_[1]->TimedOut());
  EXPECT_EQ(info.reason, "NCCL_TIMEOUT");
  EXPECT_EQ(info.metadata.at("absent"), "c");
  EXPECT_EQ(GetErrorInfo(bootstraps_[3]->TimedOut()).metadata.at("absent"), "b");
}

TEST_F(NcclBootstrapTest, VersionsMustBeTheSame) {
  for (int host : {1, 2}) Start(host, 22809, 1);
  Start(3, 22703, 1);
  const ErrorInfo info = GetErrorInfo(bootstraps_[1]->status());
  EXPECT_EQ(info.reason, "NCCL_VERSIONS_DIFFER");
  EXPECT_EQ(info.metadata.at("host"), "d");
  EXPECT_EQ(info.metadata.at("version"), "2.27.3");
  EXPECT_EQ(Ids(2), "");
}

TEST_F(NcclBootstrapTest, NoticesALostPeerAlsoLater) {
  for (int host : {1, 2, 3}) Start(host, 22809, 1);
  fabric_.Kill("host3");
  Progress();
  EXPECT_EQ(bootstraps_[1]->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(bootstraps_[2]->status().ok()) << "it only watches the first one";
  bootstraps_[2]->Watch(3);
  bootstraps_[2]->Watch(3);
  Progress();
  EXPECT_THAT(bootstraps_[2]->status().message(), testing::HasSubstr("host3"));
}

}  // namespace
}  // namespace remesh::worker
