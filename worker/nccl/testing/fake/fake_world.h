// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "worker/nccl/nccl_types.h"

namespace remesh::worker::fake_nccl {

// The bytes from one rank to another: a ring in shared memory, without any marks of messages. So,
// as with NCCL, ends that disagree on a size hang, or take one message's bytes for another's.
struct alignas(64) FakeChannel {
  static constexpr size_t kBytes = size_t{64} << 10;

  std::atomic<uint64_t> written;    // bytes
  std::atomic<uint64_t> read;       // bytes
  std::atomic<uint32_t> connected;  // the sender has come to a group with this peer
  std::byte ring[kBytes];
};

// The ranks of one unique id: a file in shared memory that carries the id's name. The ranks may be
// threads of a process or processes of a machine; they share nothing else. The ranks of a process
// that dies do nothing more.
class FakeWorld {
 public:
  static constexpr int kRanksMax = 256;

  // Makes a new id; false if there is no randomness.
  static bool MakeId(nccl::UniqueId& id);
  // Null if there can be no such file, or other ranks have given another number.
  static std::unique_ptr<FakeWorld> Open(const nccl::UniqueId& id, int ranks);
  ~FakeWorld();

  // Reports that this rank is there; false if it was before.
  bool Join(int rank);
  bool complete() const;  // all ranks are there
  // This rank ends in good order.
  void Finalize();
  bool finalized() const;  // all ranks have ended

  FakeChannel& channel(int from, int to);
  // Removes the name, so that no process can open it any more.
  void Unlink();

 private:
  struct Header {
    std::atomic<int> ranks;
    std::atomic<int> present;
    std::atomic<int> finalized;
    std::atomic<bool> taken[kRanksMax];
  };
  FakeWorld(std::string name, int ranks, void* memory)
      : name_(std::move(name)), ranks_(ranks), memory_(memory) {}
  Header& header() const { return *static_cast<Header*>(memory_); }

  const std::string name_;
  const int ranks_;
  void* const memory_;
};

}  // namespace remesh::worker::fake_nccl
