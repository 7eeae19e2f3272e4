// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remesh::service {

// Whether no one waits for the call's answer any more. Call it only before the call is finished.
bool HasGone(const grpc::CallbackServerContext& context);

// The end of a call for a caller who may cancel it while it waits. Deletes itself when the call is
// done.
class CancellableCall final : public grpc::ServerUnaryReactor {
 public:
  explicit CancellableCall(absl::AnyInvocable<void()> on_cancel)
      : on_cancel_(std::move(on_cancel)) {}

  void OnCancel() override { on_cancel_(); }
  void OnDone() override { delete this; }

 private:
  absl::AnyInvocable<void()> on_cancel_;
};

// Finishes a unary call exactly once: with `if_dropped()` if it is dropped.
class Completion {
 public:
  using Status = absl::Status (*)();

  Completion(grpc::ServerUnaryReactor* reactor, Status if_dropped)
      : reactor_(reactor), if_dropped_(if_dropped) {}
  Completion(Completion&& other) noexcept
      : reactor_(std::exchange(other.reactor_, nullptr)), if_dropped_(other.if_dropped_) {}
  Completion& operator=(Completion&&) = delete;
  ~Completion() {
    if (reactor_ != nullptr) Finish(if_dropped_());
  }

  void Finish(const absl::Status& status);

  // Finishes the call with the result, which goes into `response` if it is OK.
  template <typename Response>
  void Answer(Response* response, absl::StatusOr<Response> result) {
    if (result.ok()) *response = *std::move(result);
    Finish(result.status());
  }

 private:
  grpc::ServerUnaryReactor* reactor_;
  Status if_dropped_;
};

}  // namespace remesh::service
