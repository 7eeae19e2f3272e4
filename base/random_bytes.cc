// SPDX-License-Identifier: Apache-2.0
#include "base/random_bytes.h"

#include <sys/random.h>

#include "base/check.h"

namespace remesh {

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  // getrandom() returns up to 256 bytes in one call, never fewer than asked.
  REMESH_CHECK(count <= 256);
  REMESH_CHECK(getrandom(bytes.data(), count, 0) == static_cast<ssize_t>(count));
  return bytes;
}

}  // namespace remesh
