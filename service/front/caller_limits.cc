// SPDX-License-Identifier: Apache-2.0
#include "service/front/caller_limits.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/version_info.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"

namespace remesh::service {
namespace {

constexpr int kCallsOfConnectionMax = 1024;
constexpr int kReadMax = 64 << 10;
constexpr int kSynchronousThreadsMax = 16;
constexpr char kExperiments[] = "GRPC_EXPERIMENTS";
constexpr char kBoundedReads[] = "-tcp_read_chunks";
// Version 1.53 has no such experiment any more: it always is on.
constexpr bool kIsExperiment = GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 53;

}  // namespace

void LimitCallers(grpc::ServerBuilder& builder, size_t memory_bytes) {
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsOfConnectionMax);
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadMax);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  grpc::ResourceQuota quota("callers");
  quota.SetMaxThreads(kSynchronousThreadsMax).Resize(memory_bytes);
  builder.SetResourceQuota(quota);
}

void BoundReads() {
  if (!kIsExperiment) return;
  const char* others = std::getenv(kExperiments);
  const std::string all =
      others == nullptr ? kBoundedReads : absl::StrCat(others, ",", kBoundedReads);
  setenv(kExperiments, all.c_str(), /*overwrite=*/1);
}

}  // namespace remesh::service
