// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "service/certificates.h"

namespace remesh::service {

// How a server was dialled, and what the caller calls his settings of it.
struct Dialled {
  bool tls = false;
  CertificateFields files = {};
  std::string server_name = "tls_server_name";
};

// Why a call failed with UNAVAILABLE, in plain words that go on after the server's address: ":
// connection refused; does it run there?". Of gRPC's words for it, which name its own parts and say
// the address three times; "" when they are not known. Where two things look alike, both are named.
std::string WhyUnreachable(std::string_view grpc_words, const Dialled& dialled);

}  // namespace remesh::service
