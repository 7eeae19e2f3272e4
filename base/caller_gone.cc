// SPDX-License-Identifier: Apache-2.0
#include "base/caller_gone.h"

#include "base/error.h"

namespace remesh {

absl::Status CallerGone() {
  return MakeError(absl::StatusCode::kCancelled, "the caller has gone",
                   {.reason = "CANCELLED", .metadata = {}});
}

}  // namespace remesh
