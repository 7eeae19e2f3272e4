// SPDX-License-Identifier: Apache-2.0
#include "service/caller_limits.h"

#include <grpcpp/resource_quota.h>

namespace remesh::service {
namespace {

constexpr int kCallsOfConnectionMax = 1024;
constexpr int kReadMax = 64 << 10;
constexpr int kSynchronousThreadsMax = 16;

}  // namespace

void LimitCallers(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsOfConnectionMax);
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadMax);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder.SetResourceQuota(grpc::ResourceQuota("callers").SetMaxThreads(kSynchronousThreadsMax));
}

}  // namespace remesh::service
