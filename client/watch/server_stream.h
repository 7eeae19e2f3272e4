// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/sync_stream.h>

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/connection.h"
#include "client/watch/silence_limit.h"

namespace remesh::client {

// The messages that a server streams in answer to one call. The call ends when the server sends
// nothing for `server.timeout_seconds` while Read() waits, and when this is destroyed. For one
// thread.
template <typename Part>
class ServerStream {
 public:
  using Reader = std::unique_ptr<grpc::ClientReader<Part>>;

  // `call` starts the call with the given context.
  ServerStream(const Endpoint& server, absl::FunctionRef<Reader(grpc::ClientContext*)> call)
      : server_(server), silence_(context_, server.timeout_seconds), reader_(call(&context_)) {}
  ~ServerStream() { context_.TryCancel(); }

  // False: nothing more comes; End() returns the reason.
  bool Read(Part& part) {
    silence_.Start();
    const bool read = reader_->Read(&part);
    silence_.Stop();
    return read;
  }

  // For a watch, which is silent while nothing changes: waits as long as it takes.
  bool ReadNextChange(Part& part) { return reader_->Read(&part); }

  // REQUIRES: a read returned false. DEADLINE_EXCEEDED (CALL_FAILED) after a silence.
  absl::Status End() {
    const grpc::Status status = reader_->Finish();
    if (!silence_.passed()) return FromGrpcStatus(status, server_);
    const std::string seconds = absl::StrCat(server_.timeout_seconds);
    return MakeError(absl::StatusCode::kDeadlineExceeded,
                     absl::StrCat(server_.address, ": said nothing for ", seconds, " s (",
                                  server_.timeout_flag, ")"),
                     {.reason = "CALL_FAILED",
                      .metadata = {{"address", server_.address}, {"timeout_seconds", seconds}}});
  }

 private:
  const Endpoint server_;
  grpc::ClientContext context_;
  SilenceLimit silence_;
  const Reader reader_;
};

}  // namespace remesh::client
