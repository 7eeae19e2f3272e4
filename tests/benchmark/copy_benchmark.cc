// SPDX-License-Identifier: Apache-2.0
// Speed of strided copies and digests on one thread; the counter is bytes of the box per second.
#include <benchmark/benchmark.h>

#include <vector>

#include "worker/device/shard_view.h"

namespace remesh {
namespace {

// A box of `rows` x `row_bytes` inside a shard that is `stride_bytes` wide, as bytes.
struct Strided {
  Strided(int64_t rows, int64_t row_bytes, int64_t stride_bytes)
      : box{{{0, rows}, {0, row_bytes}}},
        source_bytes(rows * stride_bytes, std::byte{1}),
        target_bytes(rows * row_bytes),
        source{source_bytes.data(), Box{{{0, rows}, {0, stride_bytes}}}, 8},
        target{target_bytes.data(), box, 8} {}

  Box box;
  std::vector<std::byte> source_bytes, target_bytes;
  ShardView source, target;
};

constexpr int64_t kBoxBytes = 64 << 20;

void CopyRowsOf(benchmark::State& state) {
  const int64_t row = state.range(0);
  Strided strided(kBoxBytes / row, row, 2 * row);
  for (auto _ : state) CopyBox(strided.source, strided.box, strided.target);
  state.SetBytesProcessed(state.iterations() * kBoxBytes);
}
BENCHMARK(CopyRowsOf)
    ->Arg(1)
    ->Arg(2)
    ->Arg(4)
    ->Arg(12)
    ->Arg(16)
    ->Arg(64)
    ->Arg(256)
    ->Arg(4096)
    ->Arg(1 << 20);

void DigestRowsOf(benchmark::State& state) {
  const int64_t row = state.range(0);
  Strided strided(kBoxBytes / row, row, 2 * row);
  for (auto _ : state) benchmark::DoNotOptimize(DigestBox(strided.source, strided.box));
  state.SetBytesProcessed(state.iterations() * kBoxBytes);
}
BENCHMARK(DigestRowsOf)->Arg(2)->Arg(16)->Arg(256)->Arg(4096)->Arg(1 << 20);

// 4-bit elements, source and target half a byte apart.
void CopyShiftedNibbles(benchmark::State& state) {
  const int64_t elements = 2 * kBoxBytes;
  std::vector<std::byte> from(kBoxBytes + 1), to(kBoxBytes + 1);
  const ShardView source{from.data(), Box{{{0, elements + 1}}}, 4};
  const ShardView target{to.data(), Box{{{1, elements + 1}}}, 4};
  for (auto _ : state) CopyBox(source, Box{{{1, elements + 1}}}, target);
  state.SetBytesProcessed(state.iterations() * kBoxBytes);
}
BENCHMARK(CopyShiftedNibbles);

}  // namespace
}  // namespace remesh

BENCHMARK_MAIN();
