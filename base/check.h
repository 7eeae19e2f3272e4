// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>

namespace remesh::internal {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace remesh::internal

// Stops the process when our own code is wrong, in release builds too. Bad input is never a bug: it
// gets an absl::Status.
#define REMESH_CHECK(condition) \
  ((condition) ? (void)0 : ::remesh::internal::CheckFailed(__FILE__, __LINE__, #condition))
