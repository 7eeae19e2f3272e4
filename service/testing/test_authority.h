// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/tls/certificates.h"

namespace remesh::service {

struct TestCertificate {
  std::string certificate;  // PEM
  std::string key;          // PEM
};

// Signs certificates for tests, with fresh keys each time.
class TestAuthority {
 public:
  struct Subject {
    std::string uri;                // of the SAN; empty: none
    std::string dns = "localhost";  // of the SAN, which also has 127.0.0.1
    absl::Time not_before = absl::Now() - absl::Hours(1);
    absl::Time not_after = absl::Now() + absl::Hours(1);
  };

  explicit TestAuthority(const std::string& name = "test");

  const std::string& certificate() const { return own_.certificate; }  // PEM
  TestCertificate Issue(const Subject& subject) const;
  // Credentials for a process whose peers have certificates of this authority too.
  Certificates Credentials(const std::string& uri) const;

 private:
  const std::string name_;
  TestCertificate own_;
};

}  // namespace remesh::service
