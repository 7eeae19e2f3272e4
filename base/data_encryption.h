// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh {

// The name of a transport that encrypts is that of the plain one with this behind it: a worker that
// knows no encryption has no such transport, and cannot be brought to send in the clear.
inline constexpr char kEncryptedTransport[] = "+aes-256-gcm";

}  // namespace remesh
