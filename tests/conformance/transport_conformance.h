// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "worker/transport/transport.h"

// The contract of worker/transport/transport.h as tests. A transport joins by one
// INSTANTIATE_TEST_SUITE_P of TransportConformance with a world of its own.
namespace remesh::worker::conformance {

// A peer that this process can kill. In the group {survivor, victim} it sends tag {0,0,0,0} with 64
// KiB of Pattern(0), then has these in flight for good: sends of 32 MiB, index 1, and receives of
// 32 MiB, index 2.
class Victim {
 public:
  virtual ~Victim() = default;
  virtual std::string address() const = 0;
  // Opens the group in which the victim is peers[1], and starts.
  virtual void Start(const std::vector<Peer>& peers) = 0;
  // Lets a victim of this process make progress.
  virtual void Progress() {}
  virtual void Kill() = 0;
};

class World {
 public:
  virtual ~World() = default;
  virtual std::unique_ptr<Transport> NewTransport() = 0;
  virtual std::string DeadAddress() = 0;       // well-formed; nothing answers there
  virtual std::string MalformedAddress() = 0;  // or "" when any string is an address
  virtual std::unique_ptr<Victim> NewVictim() = 0;
};

struct WorldFactory {
  std::string name;
  std::function<std::unique_ptr<World>()> make;

  friend std::ostream& operator<<(std::ostream& out, const WorldFactory& world) {
    return out << world.name;
  }
};

// Bytes that tell one message's place from another's.
std::vector<std::byte> Pattern(size_t size, uint32_t seed);

// What a victim does: needs Progress() from then on. Also run by the victim's own process.
class VictimRole {
 public:
  static constexpr size_t kGreetingBytes = 64 << 10;
  static constexpr size_t kBulkBytes = 32 << 20;

  VictimRole(Transport& transport, const std::vector<Peer>& peers);
  ~VictimRole();
  void Abort() { group_->Abort(); }
  bool quiesced() const { return group_->quiesced(); }

 private:
  std::vector<std::byte> greeting_, bulk_, sink_;
  std::unique_ptr<PeerGroup> group_;
};

class TransportConformance : public testing::TestWithParam<WorldFactory> {};

}  // namespace remesh::worker::conformance
