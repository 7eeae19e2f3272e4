// SPDX-License-Identifier: Apache-2.0
#include "service/tls/certificate_keeper.h"

#include <gtest/gtest.h>

#include <functional>

#include "service/testing/certificate_folder.h"
#include "service/testing/test_authority.h"

namespace remesh::service {
namespace {

class CertificateKeeperTest : public testing::Test {
 protected:
  CertificateKeeperTest() { folder_.Write(first_); }

  std::shared_ptr<CertificateKeeper> Start(std::chrono::milliseconds poll) {
    auto keeper = CertificateKeeper::Start({.files = folder_.files(), .poll = poll}, metrics_);
    EXPECT_TRUE(keeper.ok()) << keeper.status();
    return keeper.ok() ? *keeper : nullptr;
  }
  static bool Within20Seconds(const std::function<bool()>& condition) {
    const absl::Time end = absl::Now() + absl::Seconds(20);
    while (!condition() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(5));
    return condition();
  }

  const TestAuthority authority_;
  const Certificates first_ = authority_.Credentials("");
  const CertificateFolder folder_;
  prometheus::Registry registry_;
  TlsMetrics metrics_{registry_};
};

TEST_F(CertificateKeeperTest, NoFilesNoKeeper) {
  const auto keeper = CertificateKeeper::Start({}, metrics_);
  ASSERT_TRUE(keeper.ok());
  EXPECT_EQ(*keeper, nullptr);
  EXPECT_EQ(metrics_.expiry->Value(), 0);
}

TEST_F(CertificateKeeperTest, BadFilesAtTheStartAreAnError) {
  CertificateFolder::WriteFile(folder_.files().key, "garbage");
  const auto keeper = CertificateKeeper::Start({.files = folder_.files()}, metrics_);
  EXPECT_EQ(keeper.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CertificateKeeperTest, TakesNewFilesByItself) {
  const auto keeper = Start(std::chrono::milliseconds(5));
  const Certificates second = authority_.Credentials("");
  folder_.Write(second);
  EXPECT_TRUE(Within20Seconds([&] { return keeper->current()->key == second.key; }));
  EXPECT_TRUE(Within20Seconds([&] { return metrics_.reloaded->Value() == 1; }));
  EXPECT_GT(metrics_.expiry->Value(), absl::ToUnixSeconds(absl::Now()));
}

TEST_F(CertificateKeeperTest, NoticesAtOnceWhatIsWrittenAndWhatAFlippedLinkLeadsTo) {
  const std::filesystem::path root = std::filesystem::path(folder_.files().ca).parent_path();
  for (const char* name : {"one", "two"}) {
    std::filesystem::create_directory(root / name);
    for (const char* file : {"ca.crt", "tls.crt", "tls.key"}) {
      std::filesystem::copy_file(root / file, root / name / file);
    }
  }
  std::filesystem::create_directory_symlink("one", root / "now");
  const auto keeper = *CertificateKeeper::Start({.files = {.ca = root / "now/ca.crt",
                                                           .certificate = root / "now/tls.crt",
                                                           .key = root / "now/tls.key"},
                                                 .poll = std::chrono::hours(1)},
                                                metrics_);
  const auto write = [&](const char* name, const Certificates& certificates) {
    CertificateFolder::WriteFile(root / name / "ca.crt", certificates.ca);
    CertificateFolder::WriteFile(root / name / "tls.crt", certificates.certificate);
    CertificateFolder::WriteFile(root / name / "tls.key", certificates.key);
  };
  const auto takes = [&](const Certificates& certificates) {
    return Within20Seconds([&] { return keeper->current()->key == certificates.key; });
  };
  const Certificates second = authority_.Credentials(""), third = authority_.Credentials(""),
                     fourth = authority_.Credentials("");
  write("one", second);
  EXPECT_TRUE(takes(second));
  write("two", third);
  std::filesystem::create_directory_symlink("two", root / "next");
  std::filesystem::rename(root / "next", root / "now");
  EXPECT_TRUE(takes(third));
  write("two", fourth);  // in the folder that it leads to now
  EXPECT_TRUE(takes(fourth));
}

TEST_F(CertificateKeeperTest, BadFilesLeaveTheOldOnesInForceAndCountOnce) {
  const auto keeper = Start(std::chrono::hours(1));
  CertificateFolder::WriteFile(folder_.files().key, authority_.Issue({}).key);
  keeper->Reload();
  ASSERT_TRUE(Within20Seconds([&] { return metrics_.refused->Value() == 1; }));
  EXPECT_EQ(keeper->current()->key, first_.key);
  // For another reason: counted again, and the same a second time not.
  std::filesystem::remove(folder_.files().ca);
  keeper->Reload();
  ASSERT_TRUE(Within20Seconds([&] { return metrics_.refused->Value() == 2; }));
  const Certificates second = authority_.Credentials("");
  keeper->Reload();
  folder_.Write(second);
  keeper->Reload();
  EXPECT_TRUE(Within20Seconds([&] {
    keeper->Reload();
    return keeper->current()->key == second.key;
  }));
  EXPECT_EQ(metrics_.reloaded->Value(), 1);
}

}  // namespace
}  // namespace remesh::service
