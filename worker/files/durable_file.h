// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message_lite.h"

namespace remesh::worker {

// Small files that exist as a whole or not at all, and that only this process's user can have put
// there: FAILED_PRECONDITION (NOT_OWN_FILE) otherwise, see OpenOwnFile(). A file is a magic word,
// the length and the XXH3 of a serialized message, then the message, then anything. It is written
// beside its path and renamed.

// Reserves the space of every later write of `path` of up to `bytes` of message, in this life and
// the next, so that none fails for want of space. The space is a spare file beside `path`. A write
// goes into it, and then the two exchange their names, so that the old content is the next spare.
// May be repeated at will. On file systems that cannot exchange names, the space is for one write
// only.
absl::Status ReserveWrites(const std::string& path, int64_t bytes);

// Replaces `path`. If anything fails, the old content stays.
absl::Status WriteDurably(const std::string& path, const google::protobuf::MessageLite& message);

// NOT_FOUND if there is no such file, DATA_LOSS (CORRUPT_FILE) if its content is not from
// WriteDurably().
absl::Status ReadDurable(const std::string& path, google::protobuf::MessageLite& message);

}  // namespace remesh::worker
