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

// Answers packets on a Unix socket, those of each connection in order, on a thread of its own. A
// peer that does not read its answers, or that sends an invalid packet, loses its connection. When
// there are too many connections, the server drops the longest silent connection of the user (uid)
// who has the most, so that no user can cut off others by connecting often.
class PacketServer {
 public:
  struct Reply {
    std::string bytes;
    std::shared_ptr<const Fd> fd = nullptr;
    // Called on the server's thread when the connection ends for any reason other than the end of
    // the server itself. A connection with such a callback is never dropped to make room for
    // others, and the server notices its end at once.
    std::function<void()> at_end = nullptr;
  };
  // Called on the server's thread; must not block. The server closes the descriptor that the call
  // leaves in the packet on another thread, because closing it may block.
  using Answer = std::function<Reply(Packet&)>;
  // Whether a connection may stay: called when the connection arrives and before each of its
  // packets is read. Empty: all may stay. Called on the server's thread; must not block.
  using Admit = std::function<bool(int connection)>;

  // Called before each wait, for work with a time limit. Returns the time until the server must
  // call it again. Called on the server's thread; must not block.
  using Upkeep = std::function<absl::Duration()>;

  static constexpr size_t kPacketBytesMax = 4096;
  static constexpr size_t kConnectionsMax = 256;

  // Errors: as ListenForPackets(), and RESOURCE_EXHAUSTED if no file descriptor is left.
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
  int MillisToWait(bool choked);  // -1: forever
  // Serves the connections of held_ that can be read or have ended, and the connections of
  // connections_ that can be read. `waits` has one entry for each connection, in their order.
  void ServeHeld(std::span<const pollfd> waits);
  void ServeAll(std::span<const pollfd> waits);
  void ServeOne(Connections& from, Connections::iterator connection);
  // Whether the server must not receive descriptors for now, because too many wait to be closed.
  bool Choked() const;
  void Accept();
  // Returns whether to go on accepting.
  bool AcceptOne();
  void TakeIn(Fd connection);
  void Shut(Fd connection);
  void End(Connections& from, Connections::iterator connection);
  void DropOldestOfBusiest(uid_t newcomer);
  // The descriptors to wait for: wake_ and held_, then, unless the server is choked, the listener
  // and connections_. While it is choked, held_ is watched only for ends of connections.
  std::vector<pollfd> Waits(bool choked) const;
  // Answers one packet. Returns whether the connection stays.
  bool Serve(Connection& connection);

  const std::string path_;
  Fd listener_;
  const Fd wake_;  // readable when the server must end
  const Answer answer_;
  const Admit admit_;
  const Upkeep upkeep_;
  Closer closer_;            // for descriptors that come from outside
  Connections connections_;  // used by the thread alone; the longest silent first
  Connections held_;         // the same, for connections with at_ends
  std::thread thread_;       // last: it uses all of the above
};

}  // namespace remesh::worker
