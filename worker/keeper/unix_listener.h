// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace remesh::worker {

// Opens a non-blocking Unix socket of `type` (SOCK_STREAM, SOCK_SEQPACKET) that listens at `path`,
// with `mode`. Makes the folder if it is absent, and replaces a socket that an ended process left
// there. INVALID_ARGUMENT naming `field` if the path is empty or too long, is not a socket, is in
// use, or cannot be bound.
absl::StatusOr<Fd> ListenAt(const std::string& path, int type, int mode, const std::string& field);

// Connects to such a socket. UNAVAILABLE if no process listens there, INVALID_ARGUMENT (path).
absl::StatusOr<Fd> ConnectTo(const std::string& path, int type);

}  // namespace remesh::worker
