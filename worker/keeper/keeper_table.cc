// SPDX-License-Identifier: Apache-2.0
#include "worker/keeper/keeper_table.h"

#include <fcntl.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

absl::Status CheckName(const std::string& field, const std::string& value) {
  if (!value.empty() && value.size() <= KeeperTable::kNameBytesMax) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(value.size(), " bytes"),
                      absl::StrCat("must be of 1 to ", KeeperTable::kNameBytesMax, " bytes"));
}

absl::Status NotKept(const std::string& what) {
  return MakeError(absl::StatusCode::kNotFound, absl::StrCat(what, " is not kept here"),
                   {"SEGMENT_NOT_FOUND", {{"segment", what}}});
}

// Opens the GPUs' device nodes. The driver tears down a GPU's state, including its memory, when the
// last process closes the node.
std::vector<Fd> OpenGpuNodes() {
  std::vector<Fd> nodes;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename().string();
    if (!absl::StartsWith(name, "nvidia") || !entry.is_character_file(ignored)) continue;
    Fd node(open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    if (node) nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace

absl::Status KeeperTable::Keep(worker::KeptSegment segment, Fd& handle) {
  RETURN_IF_ERROR(CheckName("keep.owner", segment.owner()));
  RETURN_IF_ERROR(CheckName("keep.name", segment.name()));
  if (!handle) return InvalidField("keep", "", "must come with a handle");
  Key key(segment.owner(), segment.name());
  if (!segments_.contains(key) && segments_.size() >= segments_max_) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat("the keeper holds ", segments_.size(), " segments already"),
                     {"KEEPER_FULL", {{"segments", absl::StrCat(segments_.size())}}});
  }
  if (gpu_nodes_.empty() && absl::StartsWith(segment.device_uuid(), "GPU-"))
    gpu_nodes_ = OpenGpuNodes();
  segments_[std::move(key)] = {std::move(segment), std::make_shared<const Fd>(std::move(handle))};
  return absl::OkStatus();
}

absl::StatusOr<KeeperTable::Kept> KeeperTable::Find(const worker::SegmentName& name) const {
  const auto it = segments_.find({name.owner(), name.name()});
  if (it == segments_.end()) return NotKept(absl::StrCat(name.owner(), ": ", name.name()));
  return it->second;
}

absl::StatusOr<KeeperTable::Kept> KeeperTable::Next(const worker::SegmentName& after) const {
  const auto it = segments_.upper_bound({after.owner(), after.name()});
  if (it == segments_.end() || it->first.first != after.owner())
    return NotKept(absl::StrCat(after.owner(), ": a segment after \"", after.name(), "\""));
  return Kept{it->second.segment, nullptr};
}

PacketServer::Reply KeeperTable::Answer(Packet& packet) {
  worker::KeeperRequest request;
  absl::StatusOr<Kept> answer = Kept();
  if (!request.ParseFromString(packet.bytes)) {
    answer = absl::InvalidArgumentError("no KeeperRequest");
  } else if (request.has_keep()) {
    const absl::Status kept = Keep(std::move(*request.mutable_keep()), packet.fd);
    if (!kept.ok()) answer = kept;
  } else if (request.has_find()) {
    answer = Find(request.find());
  } else if (request.has_drop()) {
    segments_.erase({request.drop().owner(), request.drop().name()});
  } else if (request.has_next()) {
    answer = Next(request.next());
  } else {
    answer = InvalidField("request", "", "must be one that this keeper knows");
  }
  worker::KeeperResponse response;
  response.set_code(static_cast<int>(answer.status().code()));
  response.set_message(std::string(answer.status().message()));
  if (!answer.ok()) return {response.SerializeAsString()};
  *response.mutable_segment() = answer->segment;
  return {response.SerializeAsString(), answer->handle};
}

}  // namespace remesh::worker
