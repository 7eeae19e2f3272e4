// SPDX-License-Identifier: Apache-2.0
#include "service/tls/certificates.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "service/testing/certificate_folder.h"
#include "service/testing/test_authority.h"

namespace remesh::service {
namespace {

class CertificatesTest : public testing::Test {
 protected:
  CertificatesTest() { folder_.Write(authority_.Credentials("")); }

  std::string Refusal() const {
    const auto read = ReadCertificates(folder_.files(), {}, absl::Now());
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(read.status().message());
  }
  void Own(const TestCertificate& own) const {
    CertificateFolder::WriteFile(folder_.files().certificate, own.certificate);
    CertificateFolder::WriteFile(folder_.files().key, own.key);
  }
  // "field: value \"path\" must ...".
  static std::string Says(const std::string& field, const std::string& path,
                          const std::string& what) {
    return field + ": value \"" + path + "\" " + what;
  }

  const TestAuthority authority_;
  const CertificateFolder folder_;
};

TEST_F(CertificatesTest, ReadsWhatWorks) {
  const auto read = ReadCertificates(folder_.files(), {}, absl::Now());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ca, authority_.certificate());
  EXPECT_GT(read->expiry, absl::Now() + absl::Minutes(50));
  EXPECT_LT(read->expiry, absl::Now() + absl::Minutes(70));
}

TEST_F(CertificatesTest, AnExpiredOneIsRefused) {
  Own(authority_.Issue({.not_after = absl::FromUnixSeconds(1'700'000'000)}));
  EXPECT_EQ(Refusal(), Says("tls_certificate_file", folder_.files().certificate,
                            "must be in force; it expired at 2023-11-14T22:13:20Z"));
}

TEST_F(CertificatesTest, OneOfTomorrowIsRefused) {
  Own(authority_.Issue({.not_before = absl::FromUnixSeconds(4'000'000'000),
                        .not_after = absl::FromUnixSeconds(4'100'000'000)}));
  EXPECT_EQ(Refusal(), Says("tls_certificate_file", folder_.files().certificate,
                            "must be in force; it is not valid before 2096-10-02T07:06:40Z"));
}

TEST_F(CertificatesTest, AnotherOnesKeyIsRefused) {
  CertificateFolder::WriteFile(folder_.files().key, authority_.Issue({}).key);
  EXPECT_EQ(Refusal(), Says("tls_key_file", folder_.files().key,
                            "must be the key of the certificate in tls_certificate_file"));
}

TEST_F(CertificatesTest, GarbageIsRefused) {
  CertificateFolder::WriteFile(folder_.files().ca, "garbage");
  EXPECT_EQ(Refusal(), Says("tls_ca_file", folder_.files().ca, "must hold a certificate in PEM"));
  CertificateFolder::WriteFile(folder_.files().ca, authority_.certificate() +
                                                       "-----BEGIN CERTIFICATE-----\nAAAA\n"
                                                       "-----END CERTIFICATE-----\n");
  EXPECT_EQ(Refusal(), Says("tls_ca_file", folder_.files().ca,
                            "must hold nothing but certificates in PEM; number 2 cannot be read"));
  folder_.Write(authority_.Credentials(""));
  CertificateFolder::WriteFile(folder_.files().key, "garbage");
  EXPECT_EQ(Refusal(), Says("tls_key_file", folder_.files().key,
                            "must hold a private key in PEM, without a passphrase"));
}

TEST_F(CertificatesTest, AMissingFileIsRefused) {
  std::filesystem::remove(folder_.files().ca);
  EXPECT_EQ(Refusal(),
            Says("tls_ca_file", folder_.files().ca, "cannot be read: No such file or directory"));
}

TEST_F(CertificatesTest, ABundleMayHoldACaThatHasRunOut) {
  const auto old = authority_.Issue({.not_after = absl::FromUnixSeconds(1'700'000'000)});
  CertificateFolder::WriteFile(folder_.files().ca, old.certificate + authority_.certificate());
  EXPECT_TRUE(ReadCertificates(folder_.files(), {}, absl::Now()).ok());
  CertificateFolder::WriteFile(folder_.files().ca, old.certificate);
  EXPECT_EQ(Refusal(), Says("tls_ca_file", folder_.files().ca,
                            "must be in force; it expired at 2023-11-14T22:13:20Z"));
}

TEST_F(CertificatesTest, AllOrNone) {
  EXPECT_TRUE(CheckAllOrNone({}, {}).ok());
  EXPECT_TRUE(CheckAllOrNone(folder_.files(), {}).ok());
  CertificateFiles files = folder_.files();
  files.key = "";
  EXPECT_EQ(CheckAllOrNone(files, {.ca = "tls_client_ca_file"}).message(),
            "tls_key_file: value \"\" must be set, as tls_client_ca_file, tls_certificate_file and "
            "tls_key_file must be all or none");
}

}  // namespace
}  // namespace remesh::service
