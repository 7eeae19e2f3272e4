// SPDX-License-Identifier: Apache-2.0
#include "service/rpc/unreachable.h"

#include <gtest/gtest.h>

namespace remesh::service {
namespace {

// The text of gRPC 1.51.
std::string FailedToConnect(const std::string& cause) {
  return "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:10.0.0.1:7070: " +
         cause;
}

TEST(UnreachableTest, WithoutTlsAServerThatHangsUpMayWantIt) {
  EXPECT_EQ(WhyUnreachable(FailedToConnect("Socket closed"), {.tls = false}),
            ": it closed the connection at once; if it speaks TLS, set tls_ca_file, "
            "tls_certificate_file and tls_key_file; else it stops, or takes no more connections "
            "from here");
  // The connection was established, so missing TLS is not the cause.
  EXPECT_EQ(WhyUnreachable("Socket closed", {.tls = false}), ": the connection was closed");
}

TEST(UnreachableTest, WithTlsAServerWithoutIsNamed) {
  for (const char* words : {"wrong version number", "WRONG_VERSION_NUMBER"}) {
    EXPECT_EQ(WhyUnreachable(
                  FailedToConnect(words),
                  {.tls = true,
                   .files = {.ca = "--tls-ca", .certificate = "--tls-cert", .key = "--tls-key"}}),
              ": it does not speak TLS; leave out --tls-ca, --tls-cert and --tls-key, or give the "
              "server its tls_certificate_file, tls_key_file and tls_client_ca_file");
  }
}

TEST(UnreachableTest, OtherCausesAreNamed) {
  const Dialled plain{.tls = false}, tls{.tls = true};
  EXPECT_EQ(WhyUnreachable(FailedToConnect("Connection refused"), tls),
            ": connection refused; is the server running there?");
  EXPECT_EQ(WhyUnreachable("DNS resolution failed for x", plain), ": no such host");
  EXPECT_EQ(WhyUnreachable(FailedToConnect("Socket closed"), tls),
            ": the connection was closed; it may not know the CA of the certificate in "
            "tls_certificate_file");
  EXPECT_EQ(WhyUnreachable("certificate verify failed", tls),
            ": its certificate is not of a CA in tls_ca_file, or has expired");
  EXPECT_EQ(WhyUnreachable("something new", tls), "");
}

}  // namespace
}  // namespace remesh::service
