// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace remesh::server {

// XXH3 of 128 bits over fields, each preceded by its length. Detects damage, not forgery.
struct RowDigest {
  uint64_t high = 0;
  uint64_t low = 0;

  static RowDigest Of(std::initializer_list<std::string_view> fields);
  // Reads what Bytes() wrote. Bytes of another length give a digest that in practice equals no
  // other.
  static RowDigest FromBytes(std::string_view bytes);
  std::string Bytes() const;  // 16 bytes, most significant first
  std::string Hex() const;

  // The digest of a set of rows is the XOR of their digests, so it does not depend on their order,
  // and adding a row and removing it are the same operation.
  RowDigest& operator^=(const RowDigest& other);
  friend bool operator==(const RowDigest&, const RowDigest&) = default;
};

}  // namespace remesh::server
