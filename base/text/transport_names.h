// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh {

// The transports by name, as in the setting `transport` and in data addresses.
inline constexpr char kTcpTransport[] = "tcp";
inline constexpr char kUcxTransport[] = "ucx";
inline constexpr char kNcclTransport[] = "nccl";

// The cipher of the setting `data_encryption`.
inline constexpr char kDataCipher[] = "aes-256-gcm";

// The suffix that turns the name of a plain transport into that of its encrypted form. A worker
// without encryption has no transport of that name, so no peer can make it send in the clear.
inline constexpr char kEncryptedTransport[] = "+aes-256-gcm";

}  // namespace remesh
