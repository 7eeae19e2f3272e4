// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message_lite.h"

namespace remesh {

// Small files that are there as a whole or not at all: a magic word, the length and the XXH3 of a
// serialized message, then the message; written beside and renamed.

// Sets aside the space of `count` later writes of `path` of up to `bytes` of message: these cannot
// fail for want of space.
absl::Status ReserveWrites(const std::string& path, int64_t bytes, int count);

// Replaces `path`. The old content stays whatever goes wrong.
absl::Status WriteDurably(const std::string& path, const google::protobuf::MessageLite& message);

// NOT_FOUND when there is no such file, DATA_LOSS (CORRUPT_FILE) when it is not what WriteDurably()
// wrote.
absl::Status ReadDurable(const std::string& path, google::protobuf::MessageLite& message);

}  // namespace remesh
