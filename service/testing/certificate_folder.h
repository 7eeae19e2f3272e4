// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/tls/certificates.h"

namespace remesh::service {

// A folder of this test's own that holds certificates as files.
class CertificateFolder {
 public:
  CertificateFolder()
      : folder_(std::filesystem::path(testing::TempDir()) /
                absl::StrCat(testing::UnitTest::GetInstance()->current_test_info()->name(), "-",
                             getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~CertificateFolder() { std::filesystem::remove_all(folder_); }

  CertificateFiles files() const {
    return {
        .ca = folder_ / "ca.crt", .certificate = folder_ / "tls.crt", .key = folder_ / "tls.key"};
  }

  void Write(const Certificates& certificates) const {
    WriteFile(files().ca, certificates.ca);
    WriteFile(files().certificate, certificates.certificate);
    WriteFile(files().key, certificates.key);
  }

  static void WriteFile(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }

 private:
  const std::filesystem::path folder_;
};

}  // namespace remesh::service
