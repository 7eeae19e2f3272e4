// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace remesh::server {

// 128 bits of XXH3 over fields, each after its length: finds damage, not forgery.
struct RowDigest {
  uint64_t high = 0;
  uint64_t low = 0;

  static RowDigest Of(std::initializer_list<std::string_view> fields);
  // Of what Bytes() wrote; another length: a digest that equals none in practice.
  static RowDigest FromBytes(std::string_view bytes);
  std::string Bytes() const;  // 16, high byte first
  std::string Hex() const;

  // The digest of a set of rows is that of all of them together, in any order: adding a row and
  // taking one out are the same.
  RowDigest& operator^=(const RowDigest& other);
  friend bool operator==(const RowDigest&, const RowDigest&) = default;
};

}  // namespace remesh::server
