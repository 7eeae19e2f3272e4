// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "tests/conformance/transport_conformance.h"
#include "worker/transport/testing/memory_transport.h"

namespace remesh::worker::conformance {
namespace {

// Lives in this process; a killed one is only cut off.
class MemoryVictim : public Victim {
 public:
  MemoryVictim(MemoryFabric& fabric, std::string address)
      : fabric_(fabric), transport_(fabric.NewTransport(std::move(address))) {}
  ~MemoryVictim() override {
    role_->Abort();
    while (!role_->quiesced()) transport_->Progress();
  }
  std::string address() const override { return transport_->address(); }
  void Start(const std::vector<Peer>& peers) override {
    role_ = std::make_unique<VictimRole>(*transport_, peers);
  }
  void Progress() override { transport_->Progress(); }
  void Kill() override { fabric_.Kill(address()); }

 private:
  MemoryFabric& fabric_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<VictimRole> role_;
};

class MemoryWorld : public World {
 public:
  explicit MemoryWorld(int delay) : delay_(delay) {}
  std::unique_ptr<Transport> NewTransport() override {
    std::string name = NewName();
    auto transport = fabric_.NewTransport(name);
    fabric_.SetDelay(name, delay_);
    return transport;
  }
  std::string DeadAddress() override { return "nobody"; }
  std::string MalformedAddress() override { return ""; }
  std::unique_ptr<Victim> NewVictim() override {
    return std::make_unique<MemoryVictim>(fabric_, NewName());
  }

 private:
  std::string NewName() { return absl::StrCat("host", ++names_); }

  const int delay_;
  MemoryFabric fabric_;
  int names_ = 0;
};

WorldFactory Memory(std::string name, int delay) {
  return {std::move(name), [delay] { return std::make_unique<MemoryWorld>(delay); }};
}

INSTANTIATE_TEST_SUITE_P(Memory, TransportConformance,
                         testing::Values(Memory("Direct", 0), Memory("Delayed", 7)),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace remesh::worker::conformance
