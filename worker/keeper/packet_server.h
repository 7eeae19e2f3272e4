// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/fd.h"
#include "worker/keeper/closer.h"
#include "worker/keeper/packets.h"

namespace remesh::worker {

// Answers packets on a Unix socket, each connection's in turn, on a thread of its own. A peer that
// does not read its answers, or sends what no packet may be, loses its connection; when there are
// too many connections the longest silent goes of the user (uid) who has most, so that nobody cuts
// off another by connecting often.
class PacketServer {
 public:
  struct Reply {
    std::string bytes;
    std::shared_ptr<const Fd> fd = nullptr;
    // Called, on the server's thread, when the connection ends, whatever ends it but the server's own
    // end. From now on it makes no room for others, and its end is heard at once.
    std::function<void()> at_end = nullptr;
  };
  // Called on the server's thread; must not block. The descriptor that it leaves in the packet is
  // closed elsewhere, for that may.
  using Answer = std::function<Reply(Packet&)>;
  // Whether a connection may stay: asked when it comes and before each of its packets is read.
  // Empty: all may. The same.
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
  struct Connection {
    Fd fd;
    uid_t uid;                                   // see UserAt()
    std::vector<std::function<void()>> at_ends;  // see Reply
  };
  using Connections = std::list<Connection>;

  PacketServer(std::string path, Fd listener, Fd wake, Answer answer, Admit admit, Upkeep upkeep);
  void Run();
  int MillisToWait(bool choked);  // -1: for ever
  // What of held_ can be read or is at its end, and what of connections_ can be read, as their waits
  // say: one each, in their order.
  void ServeHeld(std::span<const pollfd> waits);
  void ServeAll(std::span<const pollfd> waits);
  void ServeOne(Connections& from, Connections::iterator connection);
  // Whether it must not receive descriptors for now: too many wait to be closed.
  bool Choked() const;
  void Accept();
  // Whether to go on accepting.
  bool AcceptOne();
  void TakeIn(Fd connection);
  void Shut(Fd connection);
  void End(Connections& from, Connections::iterator connection);
  void DropOldestOfBusiest(uid_t newcomer);
  // First wake_ and held_, whose ends alone are waited for while it is choked; unless it is, the
  // listener and connections_ too.
  std::vector<pollfd> Waits(bool choked) const;
  // Whether the connection stays.
  bool Serve(Connection& connection);

  const std::string path_;
  Fd listener_;
  const Fd wake_;  // readable: it ends
  const Answer answer_;
  const Admit admit_;
  const Upkeep upkeep_;
  Closer closer_;            // of all that comes from outside
  Connections connections_;  // the thread's own; the longest silent first
  Connections held_;         // the same, those with at_ends
  std::thread thread_;       // last: it uses all of the above
};

}  // namespace remesh::worker
