// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace remesh::service {

// Paths of PEM files. All empty: no TLS.
struct CertificateFiles {
  std::string ca;           // certificates of the CAs that sign the peers' certificates
  std::string certificate;  // our own certificate, then those between it and its CA
  std::string key;          // of our own certificate, not encrypted

  bool empty() const { return ca.empty() && certificate.empty() && key.empty(); }
};

// The names of these settings, as the user knows them.
struct CertificateFields {
  std::string ca = "tls_ca_file";
  std::string certificate = "tls_certificate_file";
  std::string key = "tls_key_file";
};

// The contents of the files, as PEM.
struct Certificates {
  std::string ca;
  std::string certificate;
  std::string key;
  absl::Time expiry;      // of the first of our own certificates to expire
  absl::Time not_before;  // of that certificate

  friend bool operator==(const Certificates&, const Certificates&) = default;
};

// Reads and checks all three files: the result works in a handshake at `now`, as far as one side
// can know. INVALID_ARGUMENT names the field, the file and the fault: missing, no PEM, expired, not
// yet valid, key of another certificate, key with a passphrase, no CA in force.
absl::StatusOr<Certificates> ReadCertificates(const CertificateFiles& files,
                                              const CertificateFields& fields, absl::Time now);

// INVALID_ARGUMENT names the first empty path unless all are set or none is.
absl::Status CheckAllOrNone(const CertificateFiles& files, const CertificateFields& fields);

}  // namespace remesh::service
