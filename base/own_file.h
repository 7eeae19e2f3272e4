// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"

namespace remesh {

// Whether a file may have further names. Who may write a file may give it one.
enum class Links { kOne, kAny };

// Opens a file that only this process's user can have put there. Follows no symbolic link in the
// last part of the path, never waits for the other end of a FIFO, and changes nothing before it
// has looked at the file. `flags` and `mode` are those of open().
//   NOT_FOUND (FILE_NOT_FOUND).
//   FAILED_PRECONDITION (NOT_OWN_FILE): not a regular file, of another user, or with more names
//     than `links` allows; the message says which.
//   RESOURCE_EXHAUSTED (MEMORY_EXHAUSTED): no space; INTERNAL (IO_ERROR): any other error.
absl::StatusOr<Fd> OpenOwnFile(const std::string& path, int flags, mode_t mode = 0,
                               Links links = Links::kOne);

// Who else may add and remove files in a folder.
enum class Writers {
  kNone,
  kSticky,  // everybody, in a folder of root's with the sticky bit, such as /tmp
};

// Checks that only this process's user and root may replace files in the folder that the setting
// `field`, with the value `value`, names. INVALID_ARGUMENT says what the folder's owner and mode
// are, and what to do. A folder that cannot be looked at is left to whoever uses it.
absl::Status CheckOwnFolder(const std::string& field, const std::string& value,
                            const std::string& folder, Writers writers);

// Whether a folder's group or everybody may write to it.
inline bool IsSharedFolder(const struct stat& folder) {
  return (folder.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

// Creates the folder, and those above it, if it does not exist. The umask may give it fewer rights
// than 0755, but not more. Returns whether something is there now; errno says why not.
bool MakeFolder(const std::string& folder);

}  // namespace remesh
