// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>

#include "server/grpc/chunk_stream.h"
#include "server/grpc/refused_stream.h"
#include "server/grpc/unary.h"

namespace remesh::server {

// Returns a stream that `fill(writer)` fills on a thread of the pool, in the caller's turn. `fill`
// returns the status that the stream ends with.
template <typename Chunk, typename Fill>
grpc::ServerWriteReactor<Chunk>* FillStream(const Backend& backend, ThreadPool& pool,
                                            grpc::CallbackServerContext* context,
                                            const char* method, const service::Resource& resource,
                                            Fill fill) {
  const absl::Status status = backend.Authorize(*context, method, resource);
  if (!status.ok()) return new RefusedStream<Chunk>(status);
  auto* stream = new ChunkStream<Chunk>(context);
  auto writer = std::make_shared<ChunkWriter<Chunk>>(stream);
  const Turn turn{.caller = CallerOf(*context)};
  const bool taken = pool.Post(turn, [fill = std::move(fill), writer]() mutable {
    const absl::Status end = fill(*writer);
    writer->End(end);
  });
  if (!taken) writer->End(NotTaken(pool));
  return stream;
}

}  // namespace remesh::server
