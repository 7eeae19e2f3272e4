// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "service/tls/certificate_keeper.h"

namespace remesh::service {

// This file alone decides how calls are secured.

// TLS 1.2 or 1.3 with the certificates that `keeper` has when a connection begins; a client must
// present a certificate that the CA has signed. Null: insecure, the network is trusted. REQUIRES:
// the result outlives the grpc::Server, which keeps no reference of its own, and is used for one
// port or acceptor only: each change of the certificates is announced once.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    std::shared_ptr<const CertificateKeeper> keeper);

// TLS with these certificates, of which the channel keeps a copy. Null: insecure.
std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(const Certificates* certificates);

}  // namespace remesh::service
