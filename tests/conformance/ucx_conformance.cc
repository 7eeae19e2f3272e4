// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/check.h"
#include "tests/conformance/process_victim.h"
#include "worker/transport/ucx_transport.h"

namespace remesh::worker::conformance {
namespace {

std::unique_ptr<Transport> NewLoopback() {
  auto transport = NewUcxTransport({});
  if (!transport.ok()) std::fprintf(stderr, "%s\n", transport.status().ToString().c_str());
  REMESH_CHECK(transport.ok());
  return *std::move(transport);
}

class UcxWorld : public World {
 public:
  std::unique_ptr<Transport> NewTransport() override { return NewLoopback(); }
  std::string DeadAddress() override { return NewLoopback()->address(); }
  std::string MalformedAddress() override { return "localhost"; }
  std::unique_ptr<Victim> NewVictim() override { return NewProcessVictim(); }
};

INSTANTIATE_TEST_SUITE_P(Ucx, TransportConformance,
                         testing::Values(WorldFactory{"Loopback",
                                                      [] { return std::make_unique<UcxWorld>(); }}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace remesh::worker::conformance

int main(int argc, char** argv) {
  return remesh::worker::conformance::RunTestsOrVictim(argc, argv,
                                                       remesh::worker::conformance::NewLoopback);
}
