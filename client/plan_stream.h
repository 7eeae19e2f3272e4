// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/connection.h"
#include "remesh/v1/plan.grpc.pb.h"

namespace remesh::client {

// A server's plan in full, as it comes: everything but transfers first.
class PlanStream {
 public:
  // The call ends with DEADLINE_EXCEEDED once nothing came for the endpoint's timeout, however long
  // it takes in all.
  static absl::StatusOr<std::unique_ptr<PlanStream>> Open(const Endpoint& server,
                                                          const std::string& name);
  ~PlanStream();

  // Without transfers.
  const v1::Plan& head() const;
  // Once. The messages live for the call only.
  absl::Status ForEachTransfer(absl::FunctionRef<void(const v1::Transfer&)> visit);

 private:
  struct Call;
  explicit PlanStream(std::unique_ptr<Call> call);

  std::unique_ptr<Call> call_;
};

}  // namespace remesh::client
