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

// The keeper's table of device memory handles. Holding a handle keeps the memory alive after the
// worker that made it ends. The keeper does not read the memory, and frees only what it is asked to
// free. Must be used by one thread.
class KeeperTable {
 public:
  static constexpr size_t kNameBytesMax = 1024;

  // Holds at most `segments_max` segments, because each is a file descriptor.
  explicit KeeperTable(size_t segments_max) : segments_max_(segments_max) {}

  // Answers a KeeperRequest with a KeeperResponse, whatever the bytes are. Takes the descriptor out
  // of the packet if the request keeps it.
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
  std::vector<Fd> gpu_nodes_;  // open for the keeper's life: see OpenGpuNodes()
};

}  // namespace remesh::worker
