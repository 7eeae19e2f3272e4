// SPDX-License-Identifier: Apache-2.0
#include "client/sealed_shards.h"

#include <string>

#include "absl/strings/numbers.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::client {
namespace {

// A worker has at most two generations of a state that can be read, and names the newest to who
// asks for an older one.
constexpr int kTries = 8;

// The generation that the worker has instead of `generation`; 0 if the error names none.
int64_t LaterGeneration(const absl::Status& status, int64_t generation) {
  const ErrorInfo info = GetErrorInfo(status);
  const auto latest = info.metadata.find("latest_generation");
  int64_t later = 0;
  if (latest == info.metadata.end() || !absl::SimpleAtoi(latest->second, &later)) return 0;
  return later > generation ? later : 0;
}

bool IsNotSealed(const absl::Status& status) {
  const std::string reason = GetErrorInfo(status).reason;
  return reason == "NOT_READABLE" || reason == "GENERATION_NOT_FOUND";
}

absl::Status Lent(const absl::Status& status, const std::string& state) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      state + " is in memory that a trainer lends: give it back first (remeshctl unseal)",
      GetErrorInfo(status));
}

}  // namespace

absl::StatusOr<std::optional<LocalShards>> FindSealedShards(const Endpoint& worker,
                                                            v1::LocalService::Stub& stub,
                                                            v1::GetShardsRequest request) {
  std::optional<LocalShards> newest;
  int64_t wanted = 1;
  for (int i = 0; i < kTries; ++i) {
    request.set_generation(wanted);
    const absl::StatusOr<v1::ShardsResponse> response =
        Call(worker, stub, &v1::LocalService::Stub::GetShards, request);
    if (response.ok()) {
      ASSIGN_OR_RETURN(newest, LocalShards::Map(*response, /*writable=*/false));
      ++wanted;
      continue;
    }
    const int64_t later = LaterGeneration(response.status(), wanted);
    if (later > 0) {
      wanted = later;
      continue;
    }
    if (GetErrorInfo(response.status()).reason == "SHARDS_LENT")
      return Lent(response.status(), request.state());
    if (!IsNotSealed(response.status())) return response.status();
    break;
  }
  return newest;
}

}  // namespace remesh::client
