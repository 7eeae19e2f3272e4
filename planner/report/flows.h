// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "planner/canonical.h"
#include "planner/plan.h"

namespace remesh {

// Bits that one device sends to another in one window. Bytes that stay on their device are no flow.
struct Flow {
  int32_t from_device = 0;
  int32_t to_device = 0;
  int64_t bits = 0;

  friend bool operator==(const Flow&, const Flow&) = default;
};

// Calls visit(window, flows) for every window with flows, in order. A pair of devices may come more
// than once in a window. Time goes by the transfers of the plan, memory by those of one window.
void ForEachWindow(const CanonicalRequest& request, const Plan& plan,
                   absl::FunctionRef<void(int32_t window, absl::Span<const Flow> flows)> visit);

}  // namespace remesh
