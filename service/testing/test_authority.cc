// SPDX-License-Identifier: Apache-2.0
#include "service/testing/test_authority.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace remesh::service {
namespace {

template <typename Write>
std::string PemOf(Write write) {
  BIO* bio = BIO_new(BIO_s_mem());
  REMESH_CHECK(write(bio) == 1);
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(bio, &text);
  std::string pem(text, static_cast<size_t>(bytes));
  BIO_free(bio);
  return pem;
}

std::string PemOf(X509* certificate) {
  return PemOf([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

std::string PemOf(EVP_PKEY* key) {
  return PemOf([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

template <typename Object, typename Read>
Object* Parse(const std::string& pem, Read read) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  Object* object = read(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  REMESH_CHECK(object != nullptr);
  return object;
}

void AddExtension(X509* certificate, int id, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, id, value.c_str());
  REMESH_CHECK(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

// Version 3, of `key`, by `name`, with a number of its own.
X509* Begin(EVP_PKEY* key, const std::string& name, absl::Time from, absl::Time to) {
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  uint32_t serial = 0;
  REMESH_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial)) == 1);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial);
  ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(from));
  ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(to));
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_pubkey(certificate, key);
  return certificate;
}

}  // namespace

TestAuthority::TestAuthority(const std::string& name) : name_(name) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate =
      Begin(key, name, absl::Now() - absl::Hours(24), absl::Now() + absl::Hours(24));
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  AddExtension(certificate, NID_basic_constraints, "critical,CA:TRUE");
  REMESH_CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);
  own_ = {.certificate = PemOf(certificate), .key = PemOf(key)};
  X509_free(certificate);
  EVP_PKEY_free(key);
}

TestCertificate TestAuthority::Issue(const Subject& subject) const {
  X509* issuer = Parse<X509>(own_.certificate, PEM_read_bio_X509);
  EVP_PKEY* issuer_key = Parse<EVP_PKEY>(own_.key, PEM_read_bio_PrivateKey);
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = Begin(key, "somebody", subject.not_before, subject.not_after);
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  std::string names = absl::StrCat("DNS:", subject.dns, ",IP:127.0.0.1");
  if (!subject.uri.empty()) absl::StrAppend(&names, ",URI:", subject.uri);
  AddExtension(certificate, NID_subject_alt_name, names);
  REMESH_CHECK(X509_sign(certificate, issuer_key, EVP_sha256()) > 0);
  TestCertificate issued{.certificate = PemOf(certificate), .key = PemOf(key)};
  X509_free(certificate);
  EVP_PKEY_free(key);
  EVP_PKEY_free(issuer_key);
  X509_free(issuer);
  return issued;
}

Certificates TestAuthority::Credentials(const std::string& uri) const {
  TestCertificate issued = Issue({.uri = uri});
  return {.ca = certificate(),
          .certificate = std::move(issued.certificate),
          .key = std::move(issued.key),
          .expiry = absl::Now() + absl::Hours(1)};
}

}  // namespace remesh::service
