// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/testing/fake_library.h"

#include <dlfcn.h>

#include <cstdio>
#include <filesystem>

#include "base/check.h"

namespace remesh::worker {

std::string LoadableLibrary(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

const NcclApi& FakeNccl() {
  static const NcclApi api = [] {
    auto loaded = LoadNccl(LoadableLibrary("libremesh_fake_nccl.so"));
    if (!loaded.ok()) std::fprintf(stderr, "%s\n", loaded.status().ToString().c_str());
    REMESH_CHECK(loaded.ok());
    return *std::move(loaded);
  }();
  return api;
}

namespace {

int Count(const char* name) {
  void* library = dlopen(FakeNccl().library.c_str(), RTLD_NOW);
  auto* count = reinterpret_cast<int (*)()>(dlsym(library, name));
  REMESH_CHECK(count != nullptr);
  return count();
}

}  // namespace

int FakeNcclMade() { return Count("remeshFakeNcclMade"); }
int FakeNcclLiving() { return Count("remeshFakeNcclLiving"); }

}  // namespace remesh::worker
