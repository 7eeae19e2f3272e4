// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace remesh::worker {

// A Unix socket of `type` (SOCK_STREAM, SOCK_SEQPACKET) that listens at `path`, with `mode`, and does
// not block; its folder is made if absent. What a process that is gone left there makes room.
// INVALID_ARGUMENT naming `field` for a path that does not fit, is something else, or is in use.
absl::StatusOr<Fd> ListenAt(const std::string& path, int type, int mode, const std::string& field);

// A connection to such a socket. UNAVAILABLE when nobody listens there, INVALID_ARGUMENT (path).
absl::StatusOr<Fd> ConnectTo(const std::string& path, int type);

}  // namespace remesh::worker
