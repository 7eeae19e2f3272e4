// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "service/tls/certificates.h"

namespace remesh::service {

// How a server was called, and the names of the caller's settings for that.
struct Dialled {
  bool tls = false;
  CertificateFields files = {};
  std::string server_name = "tls_server_name";
};

// A plain cause of a call's UNAVAILABLE, to follow the server's address: ": connection refused;
// does it run there?". Derived from gRPC's own text, which names its internals and repeats the
// address three times; "" when that text is not known. When two causes look alike, names both.
std::string WhyUnreachable(std::string_view grpc_words, const Dialled& dialled);

}  // namespace remesh::service
