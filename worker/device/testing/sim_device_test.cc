// SPDX-License-Identifier: Apache-2.0
#include "worker/device/testing/sim_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "worker/device/chunks.h"
#include "worker/device/testing/sim_lender.h"

namespace remesh::worker {
namespace {

using Bytes = std::vector<std::byte>;
using ::testing::Each;
using ::testing::HasSubstr;

std::shared_ptr<std::byte> MustAllocate(SimDevice& device, int64_t bytes) {
  auto memory = device.Allocate(bytes);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return *std::move(memory);
}

void DrainAll(SimDevice& device) {
  while (device.pending() > 0) {
    if (!device.Drain()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void Ignore(absl::StatusOr<Mismatch>) {}

void Put(SimDevice& device, std::byte* to, const Bytes& bytes) {
  device.Transfer(to, bytes.data(), static_cast<int64_t>(bytes.size()), Ignore);
  DrainAll(device);
}

Bytes Get(SimDevice& device, const std::byte* from, size_t bytes) {
  Bytes copy(bytes);
  device.Transfer(copy.data(), from, static_cast<int64_t>(bytes), Ignore);
  DrainAll(device);
  return copy;
}

// Keeps sanitizers from reporting the intended crash.
void CrashUnreported() { std::signal(SIGSEGV, SIG_DFL); }

void Read(const volatile std::byte* address) {
  CrashUnreported();
  static_cast<void>(*address);
}

TEST(SimDeviceDeathTest, TheHostCannotReadItsMemory) {
  SimDevice device({}, [] {});
  auto memory = MustAllocate(device, 100);
  volatile std::byte* const address = memory.get();
  EXPECT_DEATH(Read(address), "");
  memory.reset();
  EXPECT_DEATH(Read(address), "") << "nor what is freed";
}

void ReadBehindTheEnd() {
  CrashUnreported();
  SimDevice device({}, [] {});
  const auto memory = MustAllocate(device, 1000);
  Bytes copy(4096);
  device.Transfer(copy.data(), memory.get(), 1025, Ignore);
  DrainAll(device);
}

TEST(SimDeviceDeathTest, ReadingBehindTheEndIsFatal) { EXPECT_DEATH(ReadBehindTheEnd(), ""); }

TEST(SimDeviceTest, MemoryThatIsFreedCanBeHadAgain) {
  SimDevice device({.memory_bytes = 1000}, [] {});
  auto memory = MustAllocate(device, 600);
  EXPECT_FALSE(device.Allocate(600).ok());
  memory.reset();
  EXPECT_TRUE(device.Allocate(600).ok());
}

TEST(SimDeviceTest, WhatWorkWillWriteIsNoiseUntilThen) {
  SimDevice device({}, [] {});
  const size_t bytes = 3 * kChunkBytes;
  Bytes from(bytes, std::byte{7}), to(bytes, std::byte{1});
  // The parts lie in host memory, so that the test can inspect them.
  const TapeView source(from.data(), 0, 3 * kChunkBits), target(to.data(), 0, 3 * kChunkBits);
  std::vector<uint64_t> digests(2, 1);
  const SlicePart middle{&source, &target, 4, 2 * kChunkBits, 0, digests.data()};
  device.FailAfter(0);
  device.Copy({middle}, Ignore);
  DrainAll(device);
  const Bytes noise(to.begin() + 1, to.begin() + 2 * kChunkBytes);
  EXPECT_THAT(noise, Each(std::byte{0x5A}));
  EXPECT_EQ(to[0], std::byte{0x51}) << "the low four bits are another's";
  EXPECT_EQ(to[2 * kChunkBytes], std::byte{1});
  EXPECT_THAT(digests, Each(0xA5A5A5A5A5A5A5A5));
}

TEST(SimDeviceTest, DevicesOfAProcessReachEachOther) {
  SimDevice one({.device = "sim:0"}, [] {}), two({.device = "sim:1", .seed = 2}, [] {});
  const Bytes bytes(1000, std::byte{9});
  const auto from = MustAllocate(one, 1000), to = MustAllocate(two, 1000);
  Put(one, from.get(), bytes);
  const TapeView source(from.get(), 0, 8000), target(to.get(), 0, 8000);
  uint64_t digest = 0;
  two.Copy({{&source, &target, 0, 8000, 0, &digest}}, Ignore);
  DrainAll(two);
  EXPECT_EQ(Get(two, to.get(), 1000), bytes);
}

TEST(SimDeviceTest, WorkEndsInAnOrderOfItsOwn) {
  SimDevice device({.seed = 3}, [] {});
  std::vector<int> order;
  Bytes bytes(64);
  for (int i = 0; i < 64; ++i) {
    device.Transfer(&bytes[i], &bytes[i], 0, [&order, i](auto) { order.push_back(i); });
  }
  DrainAll(device);
  EXPECT_EQ(order.size(), 64u);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
}

TEST(SimDeviceTest, AFailedDeviceDoesNotNotify) {
  std::atomic<int> notified = 0;
  SimDevice device({}, [&] { ++notified; });
  device.FailAfter(2);
  std::vector<bool> ok;
  std::byte byte{};
  for (int i = 0; i < 5; ++i) {
    device.Transfer(&byte, &byte, 0, [&](const auto& result) { ok.push_back(result.ok()); });
    DrainAll(device);
  }
  EXPECT_EQ(ok, (std::vector<bool>{true, true, false, false, false}));
  EXPECT_EQ(notified, 2);
  EXPECT_FALSE(device.Allocate(1).ok());
}

TEST(SimMemoryTest, ForgedIpcHandlesOpenNothing) {
  SimDevice device({}, [] {});
  SimLender lender(device.uuid(), "content");
  const auto refusal = [&](auto forge) {
    SimIpcHandle handle;
    std::memcpy(&handle, lender.handle().data(), sizeof(handle));
    forge(handle);
    return std::string(device.ImportIpc(BytesOf(handle), 7).status().message());
  };
  EXPECT_THAT(refusal([](auto& h) { h.magic[0] = 'x'; }), HasSubstr("none of the legacy IPC"));
  EXPECT_THAT(refusal([](auto& h) { h.device[4] = '7'; }), HasSubstr("of another device"));
  EXPECT_THAT(refusal([](auto& h) { h.inode += 1; }), HasSubstr("no process has this memory"));
  EXPECT_THAT(refusal([](auto& h) { h.pid = uint64_t{1} << 40; }), HasSubstr("no process has"));
  EXPECT_THAT(refusal([](auto& h) { h.descriptor = 1 << 20; }), HasSubstr("no process has"));
  EXPECT_THAT(refusal([](auto& h) { h.pid = static_cast<uint64_t>(getpid()); }),
              HasSubstr("cannot open what it allocated itself"));
}

TEST(SimMemoryTest, WhatIsOpenedByIpcTakesRoomUntilItIsClosed) {
  SimDevice device({.memory_bytes = 10'000}, [] {});
  SimLender lender(device.uuid(), std::string(8000, 'x'));
  auto opened = device.ImportIpc(lender.handle(), 8000);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_FALSE(device.Allocate(8000).ok());
  opened->reset();
  EXPECT_TRUE(device.Allocate(8000).ok());
}

}  // namespace
}  // namespace remesh::worker
