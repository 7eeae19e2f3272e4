// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"

namespace remesh {

// CANCELLED (CANCELLED): the end of a call whose caller no longer waits for its answer.
absl::Status CallerGone();

}  // namespace remesh
