// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "worker/device/kernels/lanes.h"
#include "worker/device/kernels/xxh3_short.h"

// XXH3 of more than 240 bytes, arranged so that a warp computes it. Inside a block of 1 KiB the
// order of its 16 stripes does not matter, so the lanes take four stripes at a time, with 8
// accumulators each, and sum them before the scramble.
namespace remesh::worker::kernels {

// The digest of `bytes` bytes from their accumulators: lane l has accumulator l % 8. Changes
// `sums`.
template <typename Lanes>
REMESH_HD uint64_t MergedSums(typename Lanes::template PerLane<uint64_t>& sums, int bytes) {
  auto others = Lanes::ExchangedAcross(sums, 1);
  Lanes::ForEach([&](int lane) {
    const int pair = lane % 8 / 2, odd = lane % 2;
    sums[lane] = FoldedProduct(sums[lane] ^ Secret(11 + 16 * pair + 8 * odd),
                               others[lane] ^ Secret(11 + 16 * pair + 8 - 8 * odd));
  });
  Lanes::AddAcross(sums, 2);
  Lanes::AddAcross(sums, 4);
  return Avalanche(static_cast<uint64_t>(bytes) * kPrime64A + Lanes::Common(sums));
}

// Lane 8g + i has accumulator i of the stripes 4s + g.
template <typename Lanes>
class LongHash {
 public:
  REMESH_HD explicit LongHash(const uint64_t* words) : words_(words) {
    Lanes::ForEach([&](int lane) {
      sums_[lane] = Start(lane % 8);
      REMESH_UNROLL
      for (int step = 0; step < 4; ++step)
        keys_[lane].of[step] = Secret(8 * (4 * step + lane / 8 + lane % 8));
      scramble_[lane] = Secret(128 + 8 * (lane % 8));
    });
  }

  REMESH_HD uint64_t Finish(int bytes) {
    const int blocks = (bytes - 1) / 1024;
    for (int block = 0; block < blocks; ++block) {
      AddStripes(block, 16);
      Lanes::ForEach([&](int lane) {
        uint64_t& sum = sums_[lane];
        sum = (sum ^ sum >> 47 ^ scramble_[lane]) * kPrime32A;
      });
    }
    AddStripes(blocks, (bytes - 1) % 1024 / 64);
    AddLastStripe(bytes);
    return MergedSums<Lanes>(sums_, bytes);
  }

 private:
  struct Keys {
    uint64_t of[4];
  };
  typename Lanes::template PerLane<uint64_t> sums_, scramble_;
  typename Lanes::template PerLane<Keys> keys_;
  const uint64_t* words_;

  // The contribution of a stripe's word: a product to its own accumulator and the word itself to
  // the neighbour's.
  struct Partial {
    typename Lanes::template PerLane<uint64_t> products, values;
    REMESH_HD void Add(int lane, uint64_t value, uint64_t key) {
      const uint64_t keyed = value ^ key;
      products[lane] += (keyed & 0xffffffffu) * (keyed >> 32);
      values[lane] += value;
    }
  };

  REMESH_HD void AddStripes(int block, int stripes) {
    Partial partial;
    Lanes::ForEach([&](int lane) {
      partial.products[lane] = partial.values[lane] = 0;
      REMESH_UNROLL
      for (int step = 0; step < 4; ++step) {
        const int stripe = 4 * step + lane / 8;
        if (stripe < stripes) {
          partial.Add(lane, words_[128 * block + 8 * stripe + lane % 8], keys_[lane].of[step]);
        }
      }
    });
    AddPartial(partial);
  }

  REMESH_HD void AddLastStripe(int bytes) {
    Partial partial;
    Lanes::ForEach([&](int lane) {
      partial.products[lane] = partial.values[lane] = 0;
      if (lane < 8)
        partial.Add(lane, Read64(words_, bytes - 64 + 8 * lane), Secret(121 + 8 * lane));
    });
    AddPartial(partial);
  }

  REMESH_HD void AddPartial(Partial& partial) {
    Lanes::AddAcross(partial.products, 8);
    Lanes::AddAcross(partial.values, 8);
    Lanes::AddAcross(partial.products, 16);
    Lanes::AddAcross(partial.values, 16);
    auto values = Lanes::ExchangedAcross(partial.values, 1);
    Lanes::ForEach([&](int lane) { sums_[lane] += partial.products[lane] + values[lane]; });
  }
};

// The digest of `bytes` <= 16 KiB from `words` on; every lane gets it.
template <typename Lanes>
REMESH_HD uint64_t HashOf(const uint64_t* words, int bytes) {
  if (bytes <= 16) return HashTo16(words, bytes);
  if (bytes <= 240) return HashTo240(words, bytes);
  return LongHash<Lanes>(words).Finish(bytes);
}

}  // namespace remesh::worker::kernels
