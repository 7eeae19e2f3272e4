// SPDX-License-Identifier: Apache-2.0
#include "planner/report/flows.h"

#include <vector>

#include "planner/element_type.h"

namespace remesh {

void ForEachWindow(const CanonicalRequest& request, const Plan& plan,
                   absl::FunctionRef<void(int32_t window, absl::Span<const Flow> flows)> visit) {
  int32_t window = 0;
  std::vector<Flow> flows;
  plan.ForEachTransfer([&](const Transfer& transfer) {
    if (transfer.from_device == transfer.to_device) return;
    if (transfer.window != window && !flows.empty()) {
      visit(window, flows);
      flows.clear();
    }
    window = transfer.window;
    const int64_t bits = transfer.box.element_count() *
                         BitWidth(request.request.arrays[transfer.array].element_type);
    // A plan lists what one device sends another array by array.
    if (!flows.empty() && flows.back().from_device == transfer.from_device &&
        flows.back().to_device == transfer.to_device) {
      flows.back().bits += bits;
    } else {
      flows.push_back({transfer.from_device, transfer.to_device, bits});
    }
  });
  if (!flows.empty()) visit(window, flows);
}

}  // namespace remesh
