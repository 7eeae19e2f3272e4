// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xxhash.h>

#include <string>

namespace remesh::testing {

// Bytes of a plan or of an exported plan, changed by whoever calls, with the checksum that their
// first part asks for.
inline std::string Resealed(std::string bytes) {
  const size_t body = bytes.size() - sizeof(XXH128_canonical_t);
  XXH128_canonical_t sum;
  XXH128_canonicalFromHash(&sum, XXH3_128bits(bytes.data(), body));
  return bytes.replace(body, std::string::npos, reinterpret_cast<const char*>(sum.digest),
                       sizeof(sum.digest));
}

// The bytes of a plan (EncodePlan) as a program writes that knows the next format.
inline std::string OfNextFormat(std::string bytes) {
  bytes[8] += 2;  // a number of either sign, doubled
  return Resealed(std::move(bytes));
}

// The same, as a program wrote that knew the format before.
inline std::string OfFormatBefore(std::string bytes) {
  bytes[8] -= 2;
  return Resealed(std::move(bytes));
}

}  // namespace remesh::testing
