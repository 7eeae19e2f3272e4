// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/testing/fake/fake_world.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <utility>

namespace remesh::worker::fake_nccl {
namespace {

constexpr size_t kHeaderBytes = 4096;

// Only touched pages take memory.
size_t BytesOf(size_t ranks) { return kHeaderBytes + ranks * ranks * sizeof(FakeChannel); }

}  // namespace

bool FakeWorld::MakeId(nccl::UniqueId& id) {
  uint64_t random[2];
  if (getrandom(random, sizeof(random), 0) != ssize_t{sizeof(random)}) return false;
  id = {};
  std::snprintf(id.bytes, sizeof(id.bytes), "/remesh-fake-nccl-%016lx%016lx", random[0], random[1]);
  return true;
}

std::unique_ptr<FakeWorld> FakeWorld::Open(const nccl::UniqueId& id, int ranks) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  if (ranks < 1 || ranks > kRanksMax || id.bytes[sizeof(id.bytes) - 1] != '\0') return nullptr;
  const int fd = shm_open(id.bytes, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  // The first rank makes the file; for the others it has that length already.
  void* memory = ftruncate(fd, BytesOf(ranks)) != 0
                     ? MAP_FAILED
                     : mmap(nullptr, BytesOf(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) return nullptr;
  std::unique_ptr<FakeWorld> world(new FakeWorld(id.bytes, ranks, memory));
  int said = 0;
  world->header().ranks.compare_exchange_strong(said, ranks);
  return said == 0 || said == ranks ? std::move(world) : nullptr;
}

FakeWorld::~FakeWorld() { munmap(memory_, BytesOf(ranks_)); }

bool FakeWorld::Join(int rank) {
  if (header().taken[rank].exchange(true)) return false;
  ++header().present;
  return true;
}

bool FakeWorld::complete() const { return header().present == ranks_; }
void FakeWorld::Finalize() { ++header().finalized; }
bool FakeWorld::finalized() const { return header().finalized == ranks_; }

FakeChannel& FakeWorld::channel(int from, int to) {
  auto* channels = reinterpret_cast<FakeChannel*>(static_cast<std::byte*>(memory_) + kHeaderBytes);
  return channels[static_cast<size_t>(from) * ranks_ + to];
}

void FakeWorld::Unlink() { shm_unlink(name_.c_str()); }

}  // namespace remesh::worker::fake_nccl
