// SPDX-License-Identifier: Apache-2.0
#include "server/controller/rpc_status.h"

#include "base/error.h"
#include "google/rpc/error_details.pb.h"

namespace remesh {

google::rpc::Status ToRpcStatus(const absl::Status& status) {
  google::rpc::Status message;
  message.set_code(static_cast<int>(status.code()));
  message.set_message(std::string(status.message()));
  if (status.ok()) return message;
  const ErrorInfo info = GetErrorInfo(status);
  google::rpc::ErrorInfo detail;
  detail.set_reason(info.reason);
  detail.set_domain("remesh");
  for (const auto& [key, value] : info.metadata) (*detail.mutable_metadata())[key] = value;
  message.add_details()->PackFrom(detail);
  return message;
}

}  // namespace remesh
