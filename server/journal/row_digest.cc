// SPDX-License-Identifier: Apache-2.0
#include "server/journal/row_digest.h"

#include <xxhash.h>

#include <cstring>

#include "absl/strings/escaping.h"

namespace remesh::server {
namespace {

void AppendNumber(uint64_t number, std::string& bytes) {
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
}

}  // namespace

RowDigest RowDigest::Of(std::initializer_list<std::string_view> fields) {
  std::string bytes;
  for (const std::string_view field : fields) {
    AppendNumber(field.size(), bytes);
    bytes += field;
  }
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.high = hash.high64, .low = hash.low64};
}

RowDigest RowDigest::FromBytes(std::string_view bytes) {
  if (bytes.size() != sizeof(XXH128_canonical_t)) return Of({"no digest", bytes});
  XXH128_canonical_t canonical;
  std::memcpy(&canonical, bytes.data(), sizeof(canonical));
  const XXH128_hash_t hash = XXH128_hashFromCanonical(&canonical);
  return {.high = hash.high64, .low = hash.low64};
}

std::string RowDigest::Bytes() const {
  std::string bytes;
  AppendNumber(high, bytes);
  AppendNumber(low, bytes);
  return bytes;
}

std::string RowDigest::Hex() const { return absl::BytesToHexString(Bytes()); }

RowDigest& RowDigest::operator^=(const RowDigest& other) {
  high ^= other.high;
  low ^= other.low;
  return *this;
}

}  // namespace remesh::server
