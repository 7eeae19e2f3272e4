// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/readiness.h"

#include "absl/strings/str_cat.h"

namespace remesh::service {

Readiness CheckReadiness(const std::vector<ReadinessCheck>& checks) {
  Readiness readiness;
  for (const ReadinessCheck& one : checks) {
    const absl::Status status = one.check();
    readiness.ready = readiness.ready && status.ok();
    absl::StrAppend(&readiness.text, one.name, ": ", status.ok() ? "ok" : status.message(), "\n");
  }
  return readiness;
}

}  // namespace remesh::service
