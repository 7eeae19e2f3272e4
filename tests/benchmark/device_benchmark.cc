// SPDX-License-Identifier: Apache-2.0
// What devices make of their memory, against a plain copy in it: rows out of a shard twice as wide,
// in slices, several in flight. The counter is bytes of the rows per second.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/device/chunks.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/host_device.h"

namespace remesh::worker {
namespace {

// Rows of `row_bits`, `bytes` in all, every second of a shard; the packed form is cut into slices.
struct Rows {
  Rows(Device& on, int64_t row_bits, int64_t bytes, int64_t slice_bytes)
      : device(on),
        shard(*on.Allocate(2 * bytes)),
        other(*on.Allocate(2 * bytes)),
        packed(*on.Allocate(bytes)),
        digests(static_cast<size_t>(bytes / kChunkBytes)) {
    const int width = static_cast<int>(std::min<int64_t>(8, row_bits));
    const int64_t row = row_bits / width;
    const planner::Box frame{{{0, bytes * 8 / row_bits}, {0, 2 * row}}};
    const planner::Box box{{frame.dims[0], {0, row}}};
    view.Add({shard.get(), frame, width}, box);
    there.Add({other.get(), frame, width}, box);
    for (int64_t at = 0; at < bytes; at += slice_bytes) {
      slices.push_back({.lo = at * 8, .hi = (at + slice_bytes) * 8});
      slices.back().digests = digests.data() + at / kChunkBytes;
    }
    // Memory that was never written is one page of zeros, and quick to read.
    const std::vector<std::byte> noise(static_cast<size_t>(2 * bytes), std::byte{0x5a});
    device.Transfer(shard.get(), noise.data(), 2 * bytes, [](const auto&) {});
    device.Transfer(other.get(), noise.data(), 2 * bytes, [](const auto&) {});
    Finish();
  }

  SlicePart Gathered(SlicePart slice) const {
    slice.source = &view;
    return slice;
  }
  SlicePart Copied(SlicePart slice) const {
    slice.source = &view;
    slice.target = &there;
    return slice;
  }
  SlicePart Scattered(SlicePart slice) const {
    slice.target = &view;
    slice.carried = true;
    return slice;
  }
  void Finish() {
    while (device.pending() > 0) {
      if (!device.Drain()) std::this_thread::sleep_for(std::chrono::microseconds(5));
    }
  }

  Device& device;
  std::shared_ptr<std::byte> shard, other, packed;
  std::vector<uint64_t> digests;
  TapeView view, there;  // of `shard` and of `other`
  std::vector<SlicePart> slices;
};

using Give = void (*)(Rows&, const SlicePart&, std::byte* packed, Device::Done);

void CopyPlainly(Rows& rows, const SlicePart& slice, std::byte* packed, Device::Done done) {
  rows.device.Transfer(packed, rows.shard.get() + slice.lo / 8, (slice.hi - slice.lo) / 8,
                       std::move(done));
}
void PackRows(Rows& rows, const SlicePart& slice, std::byte* packed, Device::Done done) {
  rows.device.Pack({rows.Gathered(slice)}, packed, std::move(done));
}
void PackRowsWithoutDigests(Rows& rows, const SlicePart& slice, std::byte* packed,
                            Device::Done done) {
  SlicePart part = rows.Gathered(slice);
  part.carried = true;
  rows.device.Pack({part}, packed, std::move(done));
}
void UnpackRows(Rows& rows, const SlicePart& slice, std::byte* packed, Device::Done done) {
  rows.device.Unpack({rows.Scattered(slice)}, packed, std::move(done));
}
void CopyRowsThere(Rows& rows, const SlicePart& slice, std::byte*, Device::Done done) {
  rows.device.Copy({rows.Copied(slice)}, std::move(done));
}
void CheckRows(Rows& rows, const SlicePart& slice, std::byte*, Device::Done done) {
  rows.device.Check({rows.Gathered(slice)}, std::move(done));
}

struct Case {
  const char* name;
  Give give;
};
constexpr Case kCases[] = {{"Pack", PackRows},
                           {"PackWithoutDigests", PackRowsWithoutDigests},
                           {"Unpack", UnpackRows},
                           {"Copy", CopyRowsThere},
                           {"Check", CheckRows}};

// Sizes at which a device is measured.
struct Scale {
  int64_t bytes, slice_bytes;
};

void Measure(benchmark::State& state, Device& device, Scale scale, int64_t row_bits, Give give) {
  Rows rows(device, row_bits, scale.bytes, scale.slice_bytes);
  // What is unpacked is what was packed.
  for (const SlicePart& slice : rows.slices) {
    PackRows(rows, slice, rows.packed.get() + slice.lo / 8, [](const auto&) {});
  }
  rows.Finish();
  for (auto _ : state) {
    for (const SlicePart& slice : rows.slices) {
      give(rows, slice, rows.packed.get() + slice.lo / 8,
           [](const absl::StatusOr<Mismatch>& end) { REMESH_CHECK(end.ok() && end->ok()); });
    }
    rows.Finish();
  }
  state.SetBytesProcessed(state.iterations() * scale.bytes);
}

void Register(const std::string& name, Device& device, Scale scale) {
  auto add = [&](const std::string& what, int64_t row_bits, Give give) {
    benchmark::RegisterBenchmark(absl::StrCat(name, "/", what).c_str(),
                                 [&device, scale, row_bits, give](benchmark::State& state) {
                                   Measure(state, device, scale, row_bits, give);
                                 })
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  };
  add("PlainCopy", 4096 * 8, CopyPlainly);
  for (const Case& one : kCases) {
    add(absl::StrCat(one.name, "/nibble"), 4, one.give);
    for (int64_t row : {1, 16, 64, 512, 4096, 16384, 1 << 20}) {
      add(absl::StrCat(one.name, "/", row), row * 8, one.give);
    }
  }
}

void RunAll() {
  HostDevice one(1, [] {}), two(2, [] {}), four(4, [] {});
  for (auto& [name, device] : {std::pair("host1", &one), {"host2", &two}, {"host4", &four}})
    Register(name, *device, {int64_t{64} << 20, int64_t{4} << 20});
  auto gpus = OpenCudaDevices({});
  if (gpus.ok()) {
    Register("cuda", *gpus->front(), {int64_t{1} << 30, int64_t{64} << 20});
    Register("cuda_small_slices", *gpus->front(), {int64_t{1} << 30, int64_t{4} << 20});
  } else {
    std::fprintf(stderr, "no GPU: %s\n", std::string(gpus.status().message()).c_str());
  }
  benchmark::RunSpecifiedBenchmarks();
}

}  // namespace
}  // namespace remesh::worker

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  remesh::worker::RunAll();
}
