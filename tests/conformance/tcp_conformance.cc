// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

#include "base/check.h"
#include "tests/conformance/process_victim.h"
#include "worker/transport/tcp_transport.h"

namespace remesh::worker::conformance {
namespace {

std::unique_ptr<Transport> NewLoopback() {
  auto transport = NewTcpTransport({});
  if (!transport.ok()) std::fprintf(stderr, "%s\n", transport.status().ToString().c_str());
  REMESH_CHECK(transport.ok());
  return *std::move(transport);
}

// Every group of it is encrypted.
class Encrypting : public Transport {
 public:
  explicit Encrypting(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}
  std::string_view name() const override { return transport_->name(); }
  std::string address() const override { return transport_->address(); }
  absl::StatusOr<std::unique_ptr<PeerGroup>> Open(int self, std::vector<Peer> peers) override {
    for (Peer& peer : peers) peer.encrypted = true;
    return transport_->Open(self, std::move(peers));
  }
  bool gathers() const override { return transport_->gathers(); }
  bool Progress() override { return transport_->Progress(); }
  void Wait(std::chrono::milliseconds timeout) override { transport_->Wait(timeout); }
  void Wake() override { transport_->Wake(); }

 private:
  std::unique_ptr<Transport> transport_;
};

constexpr char kVictimEncrypts[] = "REMESH_VICTIM_ENCRYPTS";

std::unique_ptr<Transport> NewEncrypting() { return std::make_unique<Encrypting>(NewLoopback()); }

std::unique_ptr<Transport> NewOfVictim() {
  return std::getenv(kVictimEncrypts) != nullptr ? NewEncrypting() : NewLoopback();
}

class TcpWorld : public World {
 public:
  std::unique_ptr<Transport> NewTransport() override { return NewLoopback(); }
  std::string DeadAddress() override { return NewLoopback()->address(); }
  std::string MalformedAddress() override { return "localhost"; }
  std::unique_ptr<Victim> NewVictim() override { return NewProcessVictim(); }
};

class EncryptedWorld : public TcpWorld {
 public:
  std::unique_ptr<Transport> NewTransport() override { return NewEncrypting(); }
  std::unique_ptr<Victim> NewVictim() override {
    setenv(kVictimEncrypts, "1", 1);
    auto victim = NewProcessVictim();
    unsetenv(kVictimEncrypts);
    return victim;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Tcp, TransportConformance,
    testing::Values(WorldFactory{"Loopback", [] { return std::make_unique<TcpWorld>(); }},
                    WorldFactory{"Encrypted", [] { return std::make_unique<EncryptedWorld>(); }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace remesh::worker::conformance

int main(int argc, char** argv) {
  return remesh::worker::conformance::RunTestsOrVictim(argc, argv,
                                                       remesh::worker::conformance::NewOfVictim);
}
