// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/fd.h"
#include "worker/keeper/packets.h"

namespace remesh::worker {

// Answers packets on a Unix socket, each connection's in turn, on a thread of its own. A peer that
// does not read its answer, or sends what no packet may be, loses its connection; when there are
// too many connections the one that has been silent for longest goes.
class PacketServer {
 public:
  struct Reply {
    std::string bytes;
    std::shared_ptr<const Fd> fd = nullptr;
  };
  // Called on the server's thread; must not block.
  using Answer = std::function<Reply(Packet)>;
  // Whether a connection that was just accepted may stay; empty: all may. The same.
  using Admit = std::function<bool(int connection)>;

  // Called before each wait, for what has a time limit: how long until it must be called again.
  // The same.
  using Upkeep = std::function<absl::Duration()>;

  static constexpr size_t kPacketBytesMax = 4096;
  static constexpr size_t kConnectionsMax = 256;

  // Errors: as ListenForPackets().
  static absl::StatusOr<std::unique_ptr<PacketServer>> Start(const std::string& path, int mode,
                                                             const std::string& field,
                                                             Answer answer, Admit admit = {},
                                                             Upkeep upkeep = {});
  ~PacketServer();

 private:
  PacketServer(std::string path, Fd listener, Fd wake, Answer answer, Admit admit, Upkeep upkeep);
  void Run();
  int MillisToUpkeep();  // -1: none is due
  void Accept();
  // Whether the connection stays.
  bool Serve(int connection);

  const std::string path_;
  const Fd listener_;
  const Fd wake_;  // readable: it ends
  const Answer answer_;
  const Admit admit_;
  const Upkeep upkeep_;
  std::list<Fd> connections_;  // the thread's own; the longest silent first
  std::thread thread_;         // last: it uses all of the above
};

}  // namespace remesh::worker
