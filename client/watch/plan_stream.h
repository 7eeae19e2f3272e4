// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/connection.h"
#include "remesh/v1/plan.grpc.pb.h"

namespace remesh::client {

// Reads a server's plan in full as it arrives: everything but the transfers comes first.
class PlanStream {
 public:
  // The call ends with DEADLINE_EXCEEDED when nothing arrives for the endpoint's timeout, however
  // long the whole call takes.
  static absl::StatusOr<std::unique_ptr<PlanStream>> Open(const Endpoint& server,
                                                          const std::string& name);
  ~PlanStream();

  // The plan without transfers.
  const v1::Plan& head() const;
  // Call it once. The messages live only during the call to `visit`.
  absl::Status ForEachTransfer(absl::FunctionRef<void(const v1::Transfer&)> visit);

 private:
  struct Call;
  explicit PlanStream(std::unique_ptr<Call> call);

  std::unique_ptr<Call> call_;
};

}  // namespace remesh::client
