// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "server/grpc/chunk_stream.h"
#include "server/grpc/refused_stream.h"
#include "server/grpc/unary.h"

namespace remesh::server {

// Authorizes the call, and returns a stream that `fill(emit)` makes on `threads` in the caller's
// turn: see ChunkStream::Fill.
template <typename Chunk, typename Fill>
grpc::ServerWriteReactor<Chunk>* FillStream(const Backend& backend, StreamThreads& threads,
                                            grpc::CallbackServerContext* context,
                                            const char* method, const service::Resource& resource,
                                            Fill fill) {
  const absl::Status status = backend.Authorize(*context, method, resource);
  if (!status.ok()) return new RefusedStream<Chunk>(status);
  return ChunkStream<Chunk>::Start(threads, context, CallerOf(*context), std::move(fill));
}

// Returns a ChunkStream::Fill that calls `make()`, which returns an absl::StatusOr<std::string>,
// once, and emits wrap(part) for each part of kPartBytes of that text.
template <typename Chunk, typename Make, typename Wrap>
auto FillWithText(Make make, Wrap wrap) {
  constexpr size_t kPartBytes = size_t{1} << 20;
  return [make = std::move(make), wrap = std::move(wrap), text = std::optional<std::string>(),
          at = size_t{0}](typename ChunkStream<Chunk>::Emit emit) mutable -> absl::Status {
    if (!text) {
      ASSIGN_OR_RETURN(text, make());
    }
    for (bool wanted = true; wanted && at < text->size();) {
      std::string part = text->substr(at, kPartBytes);
      at += part.size();
      wanted = emit(wrap(std::move(part)));
    }
    return absl::OkStatus();
  };
}

}  // namespace remesh::server
