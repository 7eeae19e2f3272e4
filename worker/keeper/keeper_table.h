// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/keeper/keeper.pb.h"
#include "worker/keeper/packet_server.h"

namespace remesh::worker {

// What the keeper holds: handles of device memory, so that it outlives the worker that made it. It
// reads none of it and frees nothing that it is not told to. For one thread.
class KeeperTable {
 public:
  static constexpr size_t kNameBytesMax = 1024;

  // At most so many segments: each is a file descriptor.
  explicit KeeperTable(size_t segments_max) : segments_max_(segments_max) {}

  // Answers a KeeperRequest with a KeeperResponse, whatever the bytes are. Takes the descriptor that
  // it is to keep.
  PacketServer::Reply Answer(Packet& packet);

  size_t size() const { return segments_.size(); }

 private:
  using Key = std::pair<std::string, std::string>;  // owner, name
  struct Kept {
    worker::KeptSegment segment;
    std::shared_ptr<const Fd> handle;
  };

  absl::Status Keep(worker::KeptSegment segment, Fd& handle);
  absl::StatusOr<Kept> Find(const worker::SegmentName& name) const;
  absl::StatusOr<Kept> Next(const worker::SegmentName& after) const;

  const size_t segments_max_;
  std::map<Key, Kept> segments_;
  std::vector<Fd> gpu_nodes_;  // see Keep()
};

}  // namespace remesh::worker
