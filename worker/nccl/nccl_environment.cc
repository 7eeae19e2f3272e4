// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/nccl_environment.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace remesh::worker {
namespace {

constexpr std::array<std::string_view, 3> kAllowedPrefixes = {"NCCL_IB_", "NCCL_SOCKET_",
                                                              "NCCL_DEBUG"};
constexpr std::array<std::string_view, 27> kAllowed = {
    // Networks and paths, where NCCL chooses wrongly.
    "NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_CROSS_NIC",
    "NCCL_DMABUF_ENABLE", "NCCL_GDRCOPY_ENABLE", "NCCL_NSOCKS_PERTHREAD", "NCCL_OOB_NET_ENABLE",
    "NCCL_OOB_NET_IFNAME", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE",
    "NCCL_NVLS_ENABLE", "NCCL_MNNVL_ENABLE", "NCCL_CUMEM_ENABLE", "NCCL_PXN_DISABLE",
    "NCCL_TOPO_FILE", "NCCL_IGNORE_CPU_AFFINITY", "NCCL_HOSTID",
    // How much of the device and of its memory NCCL may take.
    "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_BUFFSIZE", "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS", "NCCL_NCHANNELS_PER_NET_PEER"};

// What the link needs, whatever the environment says.
constexpr std::array<std::pair<const char*, const char*>, 2> kSet = {
    {{"NCCL_LAUNCH_MODE", "PARALLEL"}, {"NCCL_COMM_BLOCKING", "0"}}};

std::vector<std::string> NcclVariables() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("NCCL_")) names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

bool IsSetByUs(const std::string& name) {
  return std::any_of(kSet.begin(), kSet.end(), [&](const auto& set) {
    const char* value = getenv(name.c_str());
    return name == set.first && value != nullptr && value == std::string_view(set.second);
  });
}

}  // namespace

bool IsNcclVariableAllowed(std::string_view name) {
  return std::find(kAllowed.begin(), kAllowed.end(), name) != kAllowed.end() ||
         std::any_of(kAllowedPrefixes.begin(), kAllowedPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::vector<std::string> ApplyNcclEnvironment() {
  std::vector<std::string> warnings;
  for (const std::string& name : NcclVariables()) {
    if (IsNcclVariableAllowed(name) || IsSetByUs(name)) continue;
    warnings.push_back(
        absl::StrCat("the environment's ", name, "=", getenv(name.c_str()), " is left out"));
    unsetenv(name.c_str());
  }
  for (const auto& [name, value] : kSet) setenv(name, value, 1);
  return warnings;
}

}  // namespace remesh::worker
