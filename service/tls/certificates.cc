// SPDX-License-Identifier: Apache-2.0
#include "service/tls/certificates.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "service/process/small_file.h"

namespace remesh::service {
namespace {

constexpr char kTimeFormat[] = "%Y-%m-%dT%H:%M:%SZ";

template <auto free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Freed<BIO_free>>;
using X509Ptr = std::unique_ptr<X509, Freed<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

// The contents of a file, and the setting and path that errors name.
struct PemFile {
  std::string field;
  std::string path;
  std::string text;

  absl::Status Must(const std::string& be) const { return InvalidField(field, path, be); }
};

absl::StatusOr<PemFile> ReadPem(const std::string& field, const std::string& path) {
  PemFile pem{.field = field, .path = path};
  absl::StatusOr<std::string> text = ReadSmallFile(path);
  if (!text.ok()) return pem.Must(std::string(text.status().message()));
  pem.text = *std::move(text);
  if (pem.text.empty()) return pem.Must("must not be empty");
  return pem;
}

BioPtr BioOf(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm civil{};
  ASN1_TIME_to_tm(time, &civil);
  return absl::FromTM(civil, absl::UTCTimeZone());
}

absl::Time NotBefore(const X509& certificate) { return TimeOf(X509_get0_notBefore(&certificate)); }
absl::Time NotAfter(const X509& certificate) { return TimeOf(X509_get0_notAfter(&certificate)); }

std::string Utc(absl::Time time) {
  return absl::FormatTime(kTimeFormat, time, absl::UTCTimeZone());
}

// Parses every certificate of the file: if one is garbage, gRPC drops all of them.
absl::StatusOr<std::vector<X509Ptr>> ParseCertificates(const PemFile& pem) {
  const BioPtr bio = BioOf(pem.text);
  std::vector<X509Ptr> all;
  ERR_clear_error();
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) all.emplace_back(one);
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (all.empty()) return pem.Must("must hold a certificate in PEM");
  if (!at_end) {
    return pem.Must(absl::StrCat("must hold nothing but certificates in PEM; number ",
                                 all.size() + 1, " cannot be read"));
  }
  return all;
}

absl::Status CheckInForce(const PemFile& pem, const X509& certificate, absl::Time now) {
  if (NotAfter(certificate) <= now) {
    return pem.Must(absl::StrCat("must be in force; it expired at ", Utc(NotAfter(certificate))));
  }
  if (NotBefore(certificate) > now) {
    return pem.Must(
        absl::StrCat("must be in force; it is not valid before ", Utc(NotBefore(certificate))));
  }
  return absl::OkStatus();
}

// Some CAs of a bundle may have expired, but not all.
absl::Status CheckCa(const PemFile& pem, absl::Time now) {
  ASSIGN_OR_RETURN(const std::vector<X509Ptr> all, ParseCertificates(pem));
  for (const X509Ptr& one : all) {
    if (CheckInForce(pem, *one, now).ok()) return absl::OkStatus();
  }
  return CheckInForce(pem, *all.back(), now);
}

int NoPassphrase(char*, int, int, void*) { return -1; }

absl::Status CheckKey(const PemFile& pem, X509& certificate, const std::string& certificate_field) {
  const BioPtr bio = BioOf(pem.text);
  const KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  const bool matches = key != nullptr && X509_check_private_key(&certificate, key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr) return pem.Must("must hold a private key in PEM, without a passphrase");
  if (!matches) {
    return pem.Must(absl::StrCat("must be the key of the certificate in ", certificate_field));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckAllOrNone(const CertificateFiles& files, const CertificateFields& fields) {
  if (files.empty()) return absl::OkStatus();
  const std::pair<const std::string&, const std::string&> all[] = {
      {fields.ca, files.ca}, {fields.certificate, files.certificate}, {fields.key, files.key}};
  for (const auto& [field, path] : all) {
    if (!path.empty()) continue;
    return InvalidField(field, "",
                        absl::StrCat("must be set, as ", fields.ca, ", ", fields.certificate,
                                     " and ", fields.key, " must be all or none"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Certificates> ReadCertificates(const CertificateFiles& files,
                                              const CertificateFields& fields, absl::Time now) {
  RETURN_IF_ERROR(CheckAllOrNone(files, fields));
  ASSIGN_OR_RETURN(PemFile ca, ReadPem(fields.ca, files.ca));
  ASSIGN_OR_RETURN(PemFile own, ReadPem(fields.certificate, files.certificate));
  ASSIGN_OR_RETURN(PemFile key, ReadPem(fields.key, files.key));
  RETURN_IF_ERROR(CheckCa(ca, now));
  ASSIGN_OR_RETURN(const std::vector<X509Ptr> chain, ParseCertificates(own));
  absl::Time expiry = absl::InfiniteFuture();
  absl::Time not_before;
  for (const X509Ptr& one : chain) {
    RETURN_IF_ERROR(CheckInForce(own, *one, now));
    if (NotAfter(*one) >= expiry) continue;
    expiry = NotAfter(*one);
    not_before = NotBefore(*one);
  }
  RETURN_IF_ERROR(CheckKey(key, *chain.front(), fields.certificate));
  return Certificates{.ca = std::move(ca.text),
                      .certificate = std::move(own.text),
                      .key = std::move(key.text),
                      .expiry = expiry,
                      .not_before = not_before};
}

}  // namespace remesh::service
