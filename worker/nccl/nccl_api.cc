// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/nccl_api.h"

#include <dlfcn.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

absl::Status Unavailable(const std::string& library, const std::string& cause) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("NCCL library ", library, " cannot be used: ", cause),
                   {"NCCL_UNAVAILABLE", {{"library", library}, {"cause", cause}}});
}

template <typename Function>
bool Find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

// Checked before anything else is looked for: of a library that is too old, the error must say so,
// not what it lacks.
absl::StatusOr<int> VersionOf(void* handle, const std::string& library) {
  nccl::Result (*get_version)(int*) = nullptr;
  int version = 0;
  if (!Find(handle, "ncclGetVersion", get_version) ||
      get_version(&version) != nccl::Result::kSuccess) {
    return Unavailable(library, "ncclGetVersion is missing or fails");
  }
  if (version < NcclApi::kOldestVersion) {
    return Unavailable(library, absl::StrCat("it is version ", NcclVersionName(version), ", and ",
                                             NcclVersionName(NcclApi::kOldestVersion),
                                             " is the oldest that will do"));
  }
  return version;
}

}  // namespace

absl::StatusOr<NcclApi> LoadNccl(const std::string& library) {
  // Never closed: NCCL has threads of its own.
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Unavailable(library, dlerror());
  NcclApi api{.library = library};
  ASSIGN_OR_RETURN(api.version, VersionOf(handle, library));
  std::vector<std::string> missing;
  auto need = [&](const char* name, auto& function) {
    if (!Find(handle, name, function)) missing.push_back(name);
  };
  need("ncclGetUniqueId", api.get_unique_id);
  need("ncclCommInitRankConfig", api.init_rank);
  need("ncclCommAbort", api.abort);
  need("ncclCommGetAsyncError", api.get_async_error);
  need("ncclGroupStart", api.group_start);
  need("ncclGroupEnd", api.group_end);
  need("ncclSend", api.send);
  need("ncclRecv", api.receive);
  need("ncclGetErrorString", api.error_string);
  need("ncclGetLastError", api.last_error);
  Find(handle, "ncclCommInitRankScalable", api.init_rank_scalable);
  if (missing.empty()) return api;
  return Unavailable(library, absl::StrCat("it has no ", absl::StrJoin(missing, ", ")));
}

std::string NcclVersionName(int version) {
  // Up to 2.8 the number had one digit for the minor version, not two.
  const int unit = version < 10000 ? 1000 : 10000;
  return absl::StrCat(version / unit, ".", version % unit / 100, ".", version % 100);
}

absl::Status NcclStatus(const NcclApi& api, const char* call, nccl::Result result,
                        nccl::Comm* comm) {
  if (result == nccl::Result::kSuccess || result == nccl::Result::kInProgress)
    return absl::OkStatus();
  const std::string name = api.error_string(result);
  const char* last = api.last_error(comm);
  const std::string detail = last == nullptr ? "" : last;
  return MakeError(absl::StatusCode::kUnavailable,
                   absl::StrCat(call, " failed: ", name, detail.empty() ? "" : ": ", detail),
                   {"NCCL_FAILED", {{"call", call}, {"result", name}, {"detail", detail}}});
}

}  // namespace remesh::worker
