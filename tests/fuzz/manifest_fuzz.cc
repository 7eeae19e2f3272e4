// SPDX-License-Identifier: Apache-2.0
#include <xxhash.h>

#include <filesystem>
#include <fstream>

#include "tests/fuzz/buffer_folder.h"
#include "tests/fuzz/inputs.pb.h"
#include "tests/fuzz/target.h"
#include "worker/files/durable_file.h"
#include "worker/store/state_folder.h"

namespace remesh::fuzz {
namespace {

namespace fs = std::filesystem;

void WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// One path component of the input's making.
std::string Name(const std::string& name) {
  std::string file = worker::StateFolder(name);
  return file.empty() ? "x" : file;
}

// What an earlier life left of one generation.
void Leave(const BuffersInput::Generation& input, const std::string& directory) {
  const v1::Assignment& assignment = input.manifest().assignment();
  const std::string state =
      worker::StateFolder(input.state_folder().empty() ? assignment.state() : input.state_folder());
  const std::string generation = input.generation_folder().empty()
                                     ? absl::StrCat(assignment.generation())
                                     : Name(input.generation_folder());
  const std::string folder =
      absl::StrCat(directory, "/", state.empty() ? "x" : state, "/", generation);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return;
  if (!input.raw().empty()) {
    WriteFile(folder + "/manifest", input.raw());
  } else {
    REMESH_CHECK(worker::WriteDurably(folder + "/manifest", input.manifest()).ok());
  }
  const auto places = worker::PlaceShards(assignment, 2);
  if (places.ok() && !input.cut()) {
    for (const worker::ShardPlaces::File& file : places->files) {
      if (file.bytes > BufferFolder::kMemoryBytes) continue;
      WriteFile(absl::StrCat(folder, "/", file.name), std::string(file.bytes, 'x'));
    }
  }
  for (const auto& file : input.files())
    WriteFile(absl::StrCat(folder, "/", Name(file.name())), std::string(file.size() & 0xfff, 'x'));
}

}  // namespace
}  // namespace remesh::fuzz

// Whatever is in the folder is adopted, removed or set aside; what was adopted can be used, and
// found again.
REMESH_FUZZ_PROTO(remesh::fuzz::BuffersInput, input) {
  using namespace remesh;
  const fuzz::BufferFolder folder;
  for (int i = 0; i < input.generations_size() && i < 4; ++i)
    fuzz::Leave(input.generations(i), folder.path() + "/buffers");
  auto store = folder.Open();
  for (const worker::Generation* held : store->List()) {
    held->Summary();
    for (int s = 0; s < held->manifest.sealed_size(); ++s) held->PathOf(s);
    (void)store->Map(held->state(), held->number());
    if (held->pending()) {
      REMESH_CHECK(store->SetPhase(held->state(), held->number(), v1::SHARD_PHASE_READY).ok());
    } else if (held->manifest.sealed_size() > 0) {
      REMESH_CHECK(store->SetSealed(held->state(), held->number(), {0}, false).ok());
    }
  }
  const size_t held = store->List().size();
  store = folder.Open();
  REMESH_CHECK(store->List().size() == held);
  REMESH_CHECK(store->notes().empty());
}
