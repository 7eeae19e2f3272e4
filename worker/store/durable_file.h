// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message_lite.h"

namespace remesh::worker {

// Small files that are there as a whole or not at all: a magic word, the length and the XXH3 of a
// serialized message, then the message, then anything; written beside and renamed.

// Sets aside the space of every later write of `path` of up to `bytes` of message, in this life and
// the next: none fails for want of it. The space is a spare file beside `path` that a write goes
// into; the two then exchange their names, so that the old content is the next spare. Repeat it at
// will. On file systems that cannot exchange names, it holds for one write only.
absl::Status ReserveWrites(const std::string& path, int64_t bytes);

// Replaces `path`. The old content stays whatever goes wrong.
absl::Status WriteDurably(const std::string& path, const google::protobuf::MessageLite& message);

// NOT_FOUND when there is no such file, DATA_LOSS (CORRUPT_FILE) when it is not what WriteDurably()
// wrote.
absl::Status ReadDurable(const std::string& path, google::protobuf::MessageLite& message);

}  // namespace remesh::worker
