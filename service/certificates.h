// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace remesh::service {

// Paths of PEM files; all empty: no TLS.
struct CertificateFiles {
  std::string ca;           // certificates of those who sign the peers'
  std::string certificate;  // our own, then those between it and its CA
  std::string key;          // of our own, not encrypted

  bool empty() const { return ca.empty() && certificate.empty() && key.empty(); }
};

// What a user calls these settings.
struct CertificateFields {
  std::string ca = "tls_ca_file";
  std::string certificate = "tls_certificate_file";
  std::string key = "tls_key_file";
};

// What the files hold, as PEM.
struct Certificates {
  std::string ca;
  std::string certificate;
  std::string key;
  absl::Time expiry;      // of the first of our own that runs out
  absl::Time not_before;  // of that one

  friend bool operator==(const Certificates&, const Certificates&) = default;
};

// Reads and checks all three: what is returned works in a handshake at `now`, as far as one side
// can know. INVALID_ARGUMENT naming the field, the file and what is wrong with it: missing, no PEM,
// expired, not yet valid, another certificate's key, a key with a passphrase, no CA in force.
absl::StatusOr<Certificates> ReadCertificates(const CertificateFiles& files,
                                              const CertificateFields& fields, absl::Time now);

// INVALID_ARGUMENT naming the first that is empty unless all or none are.
absl::Status CheckAllOrNone(const CertificateFiles& files, const CertificateFields& fields);

}  // namespace remesh::service
