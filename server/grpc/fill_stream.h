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
#include "server/planning/kept_bytes.h"

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
// once, and emits wrap(part) for each part of kPartBytes of that text. A text of several parts is
// kept until the last of them is made, if `kept` has room for it; else the stream ends with the
// error of KeptBytes::Keep(). `kept` must outlive the call.
template <typename Chunk, typename Make, typename Wrap>
auto FillWithText(KeptBytes& kept, std::string caller, Make make, Wrap wrap) {
  constexpr size_t kPartBytes = size_t{1} << 20;
  return [&kept, caller = std::move(caller), make = std::move(make), wrap = std::move(wrap),
          text = std::optional<std::string>(), place = KeptBytes::Place(),
          at = size_t{0}](typename ChunkStream<Chunk>::Emit emit) mutable -> absl::Status {
    if (!text) {
      ASSIGN_OR_RETURN(text, make());
      text->shrink_to_fit();
      const bool whole = text->size() <= kPartBytes;
      ASSIGN_OR_RETURN(place, kept.Keep(caller, whole ? 0 : text->size()));
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
