// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/log/log.h"

namespace remesh::service {

// Returns work(), an absl::Status or absl::StatusOr, so that no request ends the process: INTERNAL
// when a library throws, as for want of memory. Our own code does not throw.
template <typename Work>
std::invoke_result_t<Work> CatchFaults(Work work) {
  try {
    return work();
  } catch (const std::exception& fault) {
    LogError("a request cannot be answered", {{"cause", fault.what()}});
    return absl::InternalError(absl::StrCat("a fault of the server: ", fault.what()));
  }
}

}  // namespace remesh::service
