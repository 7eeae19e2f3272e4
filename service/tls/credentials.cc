// SPDX-License-Identifier: Apache-2.0
#include "service/tls/credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <string>
#include <utility>

#include "base/check.h"

namespace remesh::service {
namespace {

// Gives gRPC the keeper's certificates, for which gRPC asks at every handshake. gRPC's own file
// watcher would take whatever is on disk, and a key that belongs to another certificate would close
// the port to all clients.
class ReloadedCredentials : public grpc::ServerCredentials {
 public:
  explicit ReloadedCredentials(std::shared_ptr<const CertificateKeeper> keeper)
      : keeper_(std::move(keeper)),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, Fetch, this))) {}
  ~ReloadedCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    REMESH_CHECK(false);  // Authorizer decides this
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // gRPC calls this while it holds a lock of the port.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    auto& credentials = *static_cast<ReloadedCredentials*>(self);
    const std::shared_ptr<const Certificates> now = credentials.keeper_->current();
    if (now == credentials.given_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair{now->key.c_str(), now->certificate.c_str()};
    *config = grpc_ssl_server_certificate_config_create(now->ca.c_str(), &pair, 1);
    credentials.given_ = now;
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<const CertificateKeeper> keeper_;
  std::shared_ptr<const Certificates> given_;
  grpc_server_credentials* const credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    std::shared_ptr<const CertificateKeeper> keeper) {
  if (keeper == nullptr) return grpc::InsecureServerCredentials();
  return std::make_shared<ReloadedCredentials>(std::move(keeper));
}

std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(const Certificates* certificates) {
  if (certificates == nullptr) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({.pem_root_certs = certificates->ca,
                               .pem_private_key = certificates->key,
                               .pem_cert_chain = certificates->certificate});
}

}  // namespace remesh::service
