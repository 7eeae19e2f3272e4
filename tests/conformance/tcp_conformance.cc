// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "tests/conformance/process_victim.h"
#include "worker/transport/tcp_transport.h"
#include "worker/transport/testing/forwarding_transport.h"

namespace remesh::worker::conformance {
namespace {

std::unique_ptr<Transport> NewLoopback() { return OrDie(NewTcpTransport({})); }

// Every group of it is encrypted.
class Encrypting : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  absl::StatusOr<std::unique_ptr<PeerGroup>> Open(int self, std::vector<Peer> peers) override {
    for (Peer& peer : peers) peer.encrypted = true;
    return ForwardingTransport::Open(self, std::move(peers));
  }
};

constexpr char kVictimEncrypts[] = "REMESH_VICTIM_ENCRYPTS";

std::unique_ptr<Transport> NewEncrypting() { return std::make_unique<Encrypting>(NewLoopback()); }

std::unique_ptr<Transport> NewOfVictim() {
  return std::getenv(kVictimEncrypts) != nullptr ? NewEncrypting() : NewLoopback();
}

class EncryptedWorld : public LoopbackWorld {
 public:
  EncryptedWorld() : LoopbackWorld(NewEncrypting) {}
  std::unique_ptr<Victim> NewVictim() override {
    setenv(kVictimEncrypts, "1", 1);
    auto victim = NewProcessVictim();
    unsetenv(kVictimEncrypts);
    return victim;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Tcp, TransportConformance,
    testing::Values(WorldFactory{"Loopback",
                                 [] { return std::make_unique<LoopbackWorld>(NewLoopback); }},
                    WorldFactory{"Encrypted", [] { return std::make_unique<EncryptedWorld>(); }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace remesh::worker::conformance

int main(int argc, char** argv) {
  return remesh::worker::conformance::RunTestsOrVictim(argc, argv,
                                                       remesh::worker::conformance::NewOfVictim);
}
