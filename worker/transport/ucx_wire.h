// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>

#include "worker/transport/peer_table.h"
#include "worker/transport/transport.h"

// The format of active messages, between builds of one version on little-endian machines.
namespace remesh::worker::ucx {

static_assert(std::endian::native == std::endian::little);

// Active message ids.
enum Id : unsigned {
  kHello = 1,    // header Hello, no data: the first on a connection, from the side that dialled
  kAccept = 2,   // no header, no data: the answer, when the group is open and knows the token
  kMessage = 3,  // header MessageTag: a message of the group
  // No header, no data: kTakenBytes more of short messages have found their Receive(). Sent against
  // the connection's direction.
  kTaken = 4,
};

// The bytes that a message copied on arrival counts for in the limits, before it is received and
// after.
inline constexpr size_t CountedBytes(size_t size) { return size + 128; }

inline constexpr size_t kTakenBytes = 64 << 10;

struct Hello {
  static constexpr uint64_t kMagic = 0x31687365'6d65'7202;  // the last byte is the version

  uint64_t magic = kMagic;
  char to[kAttemptTokenBytes];    // token of the group that is called
  char from[kAttemptTokenBytes];  // of the caller
};

// Reads a header of untrusted length; nullopt unless it has the size of a T.
template <typename T>
std::optional<T> ParseHeader(const void* header, size_t length) {
  if (length != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, header, sizeof(T));
  return value;
}

}  // namespace remesh::worker::ucx
