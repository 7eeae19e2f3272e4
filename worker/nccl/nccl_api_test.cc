// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/nccl_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/error.h"
#include "worker/nccl/nccl_environment.h"
#include "worker/nccl/testing/fake_library.h"

namespace remesh::worker {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string WhyNot(const std::string& library) {
  const absl::Status status = LoadNccl(library).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  const ErrorInfo info = GetErrorInfo(status);
  EXPECT_EQ(info.reason, "NCCL_UNAVAILABLE");
  EXPECT_EQ(info.metadata.at("library"), library);
  return info.metadata.at("cause");
}

TEST(NcclApi, FindsTheLibraryAndItsVersion) {
  const NcclApi& api = FakeNccl();
  EXPECT_EQ(api.version, 22809);
  EXPECT_NE(api.init_rank_scalable, nullptr);
}

TEST(NcclApi, NamesALibraryThatIsNotThere) {
  EXPECT_THAT(WhyNot("/nowhere/libnccl.so.2"), HasSubstr("/nowhere/libnccl.so.2"));
}

TEST(NcclApi, RefusesALibraryThatIsNoNccl) {
  EXPECT_THAT(WhyNot("libm.so.6"), HasSubstr("ncclGetVersion"));
}

TEST(NcclApi, RefusesAnOldVersionAndSaysWhich) {
  EXPECT_THAT(WhyNot(LoadableLibrary("libremesh_old_nccl.so")),
              AllOf(HasSubstr("2.18.5"), HasSubstr("2.19.0")));
}

TEST(NcclApi, NamesTheFunctionsThatAreMissing) {
  EXPECT_THAT(WhyNot(LoadableLibrary("libremesh_partial_nccl.so")),
              AllOf(HasSubstr("ncclSend, ncclRecv"), HasSubstr("ncclCommAbort"),
                    Not(HasSubstr("ncclGroupStart")), Not(HasSubstr("Scalable"))));
}

TEST(NcclApi, NamesVersionsAsNcclDoes) {
  EXPECT_EQ(NcclVersionName(22809), "2.28.9");
  EXPECT_EQ(NcclVersionName(2804), "2.8.4");
}

TEST(NcclApi, ErrorsNameTheCallAndTheResult) {
  const NcclApi& api = FakeNccl();
  EXPECT_TRUE(NcclStatus(api, "ncclSend", nccl::Result::kSuccess, nullptr).ok());
  EXPECT_TRUE(NcclStatus(api, "ncclSend", nccl::Result::kInProgress, nullptr).ok());
  const ErrorInfo info =
      GetErrorInfo(NcclStatus(api, "ncclSend", nccl::Result::kInvalidUsage, nullptr));
  EXPECT_EQ(info.reason, "NCCL_FAILED");
  EXPECT_EQ(info.metadata.at("call"), "ncclSend");
  EXPECT_EQ(info.metadata.at("result"), "invalid usage");
}

TEST(NcclEnvironment, LeavesOutWhatIsNotOnTheListAndSaysSo) {
  setenv("NCCL_SOCKET_IFNAME", "eth7", 1);
  setenv("NCCL_IB_HCA", "mlx5", 1);
  setenv("NCCL_ALGO", "Ring", 1);
  setenv("NCCL_LAUNCH_MODE", "GROUP", 1);
  setenv("NCCL_COMM_BLOCKING", "1", 1);
  EXPECT_THAT(ApplyNcclEnvironment(),
              testing::UnorderedElementsAre(HasSubstr("NCCL_ALGO=Ring"),
                                            HasSubstr("NCCL_LAUNCH_MODE=GROUP"),
                                            HasSubstr("NCCL_COMM_BLOCKING=1")));
  EXPECT_STREQ(getenv("NCCL_SOCKET_IFNAME"), "eth7");
  EXPECT_STREQ(getenv("NCCL_IB_HCA"), "mlx5");
  EXPECT_EQ(getenv("NCCL_ALGO"), nullptr);
  EXPECT_STREQ(getenv("NCCL_LAUNCH_MODE"), "PARALLEL");
  EXPECT_STREQ(getenv("NCCL_COMM_BLOCKING"), "0");
  EXPECT_THAT(ApplyNcclEnvironment(), testing::IsEmpty()) << "what it set itself is no surprise";
}

TEST(NcclEnvironment, AllowsNamesAndFamiliesOfNames) {
  EXPECT_TRUE(IsNcclVariableAllowed("NCCL_DEBUG"));
  EXPECT_TRUE(IsNcclVariableAllowed("NCCL_HOSTID"));
  EXPECT_FALSE(IsNcclVariableAllowed("NCCL_HOSTID_"));
  EXPECT_FALSE(IsNcclVariableAllowed("NCCL_COMM_ID"));
  EXPECT_FALSE(IsNcclVariableAllowed("NCCL_CONF_FILE"));
}

}  // namespace
}  // namespace remesh::worker
