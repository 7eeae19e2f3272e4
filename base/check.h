// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh::internal {

// Writes the line to stderr and aborts: within a second or so even if stderr's reader stands still.
// Async-signal-safe.
[[noreturn]] void CheckFailed(const char* line);

}  // namespace remesh::internal

#define REMESH_TEXT_OF_VALUE(value) #value
#define REMESH_TEXT_OF(macro) REMESH_TEXT_OF_VALUE(macro)

// Stops the process when our own code is wrong, in release builds too. Bad input is never a bug: it
// gets an absl::Status.
#define REMESH_CHECK(condition)                   \
  ((condition) ? (void)0                          \
               : ::remesh::internal::CheckFailed( \
                     __FILE__ ":" REMESH_TEXT_OF(__LINE__) ": CHECK failed: " #condition "\n"))
