// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/process_victim.h"
#include "worker/transport/ucx_transport.h"

namespace remesh::worker::conformance {
namespace {

std::unique_ptr<Transport> NewLoopback() { return OrDie(NewUcxTransport({})); }

INSTANTIATE_TEST_SUITE_P(Ucx, TransportConformance,
                         testing::Values(WorldFactory{
                             "Loopback",
                             [] { return std::make_unique<LoopbackWorld>(NewLoopback); }}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace remesh::worker::conformance

int main(int argc, char** argv) {
  return remesh::worker::conformance::RunTestsOrVictim(argc, argv,
                                                       remesh::worker::conformance::NewLoopback);
}
