// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/nccl/nccl_types.h"

namespace remesh::worker {

// NCCL as a table of functions from a library that is loaded at run time: a worker without GPUs
// needs none, and tests load a fake (fake/). NCCL's own documentation describes each function.
struct NcclApi {
  static constexpr int kOldestVersion = 21900;  // 2.19: non-blocking communicators that can abort

  int version = 0;      // 22809: 2.28.9
  std::string library;  // as given to LoadNccl()

  nccl::Result (*get_unique_id)(nccl::UniqueId*) = nullptr;
  nccl::Result (*init_rank)(nccl::Comm**, int ranks, nccl::UniqueId, int rank,
                            nccl::Config*) = nullptr;
  // Several ids, for many ranks; null before 2.23.
  nccl::Result (*init_rank_scalable)(nccl::Comm**, int ranks, int rank, int ids, nccl::UniqueId*,
                                     nccl::Config*) = nullptr;
  nccl::Result (*abort)(nccl::Comm*) = nullptr;
  nccl::Result (*get_async_error)(nccl::Comm*, nccl::Result*) = nullptr;
  nccl::Result (*group_start)() = nullptr;
  nccl::Result (*group_end)() = nullptr;
  nccl::Result (*send)(const void*, size_t count, int type, int peer, nccl::Comm*,
                       nccl::Stream) = nullptr;
  nccl::Result (*receive)(void*, size_t count, int type, int peer, nccl::Comm*,
                          nccl::Stream) = nullptr;
  const char* (*error_string)(nccl::Result) = nullptr;
  const char* (*last_error)(nccl::Comm*) = nullptr;
};

// Loads `library` (a path, or a name for the dynamic linker) for good. Call ApplyNcclEnvironment()
// first. Errors: FAILED_PRECONDITION, reason NCCL_UNAVAILABLE, which says what was found instead:
// no library, a version before 2.19, functions missing.
absl::StatusOr<NcclApi> LoadNccl(const std::string& library);

// "2.28.9" for 22809.
std::string NcclVersionName(int version);

// OK for success and for "in progress". Otherwise UNAVAILABLE, reason NCCL_FAILED, with the call,
// NCCL's name of the result and its last error message. `comm` may be null.
absl::Status NcclStatus(const NcclApi& api, const char* call, nccl::Result result,
                        nccl::Comm* comm);

}  // namespace remesh::worker
