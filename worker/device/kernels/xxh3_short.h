// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "worker/device/kernels/lanes.h"

// The parts of XXH3 that need no other lane: constants, reads, and the digests of up to 240 bytes,
// which each lane computes for itself. 64 bits, seed 0, default secret (xxhash 0.8, Yann Collet,
// BSD 2-Clause).
namespace remesh::worker::kernels {

inline constexpr uint32_t kPrime32A = 0x9E3779B1u, kPrime32B = 0x85EBCA77u, kPrime32C = 0xC2B2AE3Du;
inline constexpr uint64_t kPrime64A = 0x9E3779B185EBCA87u, kPrime64B = 0xC2B2AE3D27D4EB4Fu,
                          kPrime64C = 0x165667B19E3779F9u, kPrime64D = 0x85EBCA77C2B2AE63u,
                          kPrime64E = 0x27D4EB2F165667C5u;

// The default secret and the initial accumulators, as little-endian words. Different lanes read
// different words.
#define REMESH_XXH3_SECRET                                                                  \
  {                                                                                         \
    0xbe4ba423396cfeb8u, 0x1cad21f72c81017cu, 0xdb979083e96dd4deu, 0x1f67b3b7a4a44072u,     \
        0x78e5c0cc4ee679cbu, 0x2172ffcc7dd05a82u, 0x8e2443f7744608b8u, 0x4c263a81e69035e0u, \
        0xcb00c391bb52283cu, 0xa32e531b8b65d088u, 0x4ef90da297486471u, 0xd8acdea946ef1938u, \
        0x3f349ce33f76faa8u, 0x1d4f0bc7c7bbdcf9u, 0x3159b4cd4be0518au, 0x647378d9c97e9fc8u, \
        0xc3ebd33483acc5eau, 0xeb6313faffa081c5u, 0x49daf0b751dd0d17u, 0x9e68d429265516d3u, \
        0xfca1477d58be162bu, 0xce31d07ad1b8f88fu, 0x280416958f3acb45u, 0x7e404bbbcafbd7afu  \
  }
#define REMESH_XXH3_START \
  { kPrime32C, kPrime64A, kPrime64B, kPrime64C, kPrime64D, kPrime32B, kPrime64E, kPrime32A }
#ifdef __CUDACC__
static __device__ const uint64_t kSecretOnDevice[24] = REMESH_XXH3_SECRET;
static __device__ const uint64_t kStartOnDevice[8] = REMESH_XXH3_START;
#endif
inline constexpr uint64_t kSecret[24] = REMESH_XXH3_SECRET;
inline constexpr uint64_t kStart[8] = REMESH_XXH3_START;
#undef REMESH_XXH3_SECRET
#undef REMESH_XXH3_START

// Read 8 and 4 bytes from `offset` on. They read whole aligned words, and only words that hold some
// of these bytes.
REMESH_HD inline uint64_t Read64(const uint64_t* words, int offset) {
  const int word = offset / 8, shift = offset % 8 * 8;
  return shift == 0 ? words[word] : words[word] >> shift | words[word + 1] << (64 - shift);
}
REMESH_HD inline uint32_t Read32(const uint64_t* words, int offset) {
  const int word = offset / 8, shift = offset % 8 * 8;
  uint64_t value = words[word] >> shift;
  if (shift > 32) value |= words[word + 1] << (64 - shift);
  return static_cast<uint32_t>(value);
}
REMESH_HD inline uint64_t Read8(const uint64_t* words, int offset) {
  return words[offset / 8] >> offset % 8 * 8 & 0xff;
}
REMESH_HD inline uint64_t Secret(int offset) {
#ifdef __CUDA_ARCH__
  return Read64(kSecretOnDevice, offset);
#else
  return Read64(kSecret, offset);
#endif
}
REMESH_HD inline uint64_t Start(int accumulator) {
#ifdef __CUDA_ARCH__
  return kStartOnDevice[accumulator];
#else
  return kStart[accumulator];
#endif
}

REMESH_HD inline uint64_t FoldedProduct(uint64_t a, uint64_t b) {
#ifdef __CUDA_ARCH__
  return a * b ^ __umul64hi(a, b);
#else
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
#endif
}
REMESH_HD inline uint64_t RotatedLeft(uint64_t value, int bits) {
  return value << bits | value >> (64 - bits);
}
REMESH_HD inline uint64_t Swapped(uint64_t value) {
  uint64_t swapped = 0;
  for (int byte = 0; byte < 8; ++byte) swapped = swapped << 8 | (value >> 8 * byte & 0xff);
  return swapped;
}
REMESH_HD inline uint64_t Avalanche(uint64_t hash) {
  hash = (hash ^ hash >> 37) * 0x165667919E3779F9u;
  return hash ^ hash >> 32;
}
REMESH_HD inline uint64_t OldAvalanche(uint64_t hash) {  // XXH64's
  hash = (hash ^ hash >> 33) * kPrime64B;
  hash = (hash ^ hash >> 29) * kPrime64C;
  return hash ^ hash >> 32;
}
REMESH_HD inline uint64_t Mixed(const uint64_t* words, int offset, int secret) {
  return FoldedProduct(Read64(words, offset) ^ Secret(secret),
                       Read64(words, offset + 8) ^ Secret(secret + 8));
}

REMESH_HD inline uint64_t HashTo16(const uint64_t* words, int bytes) {
  if (bytes == 0) return OldAvalanche(Secret(56) ^ Secret(64));
  if (bytes < 4) {
    const uint64_t combined = Read8(words, 0) << 16 | Read8(words, bytes / 2) << 24 |
                              Read8(words, bytes - 1) | static_cast<uint64_t>(bytes) << 8;
    const uint64_t secret = Secret(0);
    return OldAvalanche(combined ^ ((secret ^ secret >> 32) & 0xffffffffu));
  }
  if (bytes <= 8) {
    uint64_t hash = Read32(words, bytes - 4) + (static_cast<uint64_t>(Read32(words, 0)) << 32);
    hash ^= Secret(8) ^ Secret(16);
    hash ^= RotatedLeft(hash, 49) ^ RotatedLeft(hash, 24);
    hash *= 0x9FB21C651E98DF25u;
    hash = (hash ^ ((hash >> 35) + static_cast<uint64_t>(bytes))) * 0x9FB21C651E98DF25u;
    return hash ^ hash >> 28;
  }
  const uint64_t low = Read64(words, 0) ^ Secret(24) ^ Secret(32);
  const uint64_t high = Read64(words, bytes - 8) ^ Secret(40) ^ Secret(48);
  return Avalanche(static_cast<uint64_t>(bytes) + Swapped(low) + high + FoldedProduct(low, high));
}

REMESH_HD inline uint64_t HashTo240(const uint64_t* words, int bytes) {
  uint64_t hash = static_cast<uint64_t>(bytes) * kPrime64A;
  if (bytes <= 128) {
    for (int pair = (bytes - 1) / 32; pair >= 0; --pair) {
      hash += Mixed(words, 16 * pair, 32 * pair);
      hash += Mixed(words, bytes - 16 * (pair + 1), 32 * pair + 16);
    }
    return Avalanche(hash);
  }
  for (int round = 0; round < 8; ++round) hash += Mixed(words, 16 * round, 16 * round);
  hash = Avalanche(hash);
  for (int round = 8; round < bytes / 16; ++round) {
    hash += Mixed(words, 16 * round, 16 * (round - 8) + 3);
  }
  return Avalanche(hash + Mixed(words, bytes - 16, 136 - 17));
}

}  // namespace remesh::worker::kernels
