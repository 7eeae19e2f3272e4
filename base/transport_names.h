// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh {

// The suffix that turns the name of a plain transport into that of its encrypted form. A worker
// without encryption has no transport of that name, so no peer can make it send in the clear.
inline constexpr char kEncryptedTransport[] = "+aes-256-gcm";

}  // namespace remesh
