// SPDX-License-Identifier: Apache-2.0
#include "worker/keeper/packet_server.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "worker/keeper/busiest.h"

namespace remesh::worker {
namespace {

constexpr int kAcceptedAtOnce = 64;  // then other connections have their turn
constexpr useconds_t kPauseMicros = 10'000;
// Approximate limit on unread answers of one connection; the kernel doubles it. The kernel counts
// descriptors in unread answers against this process's user, and at some point lets that user send
// no more of them.
constexpr int kUnreadBytesMax = PacketServer::kPacketBytesMax;
// Limit on descriptors that wait to be closed. Above it this process must not receive more, so it
// reads no connection.
constexpr size_t kClosingMax = 256;
constexpr uid_t kNoUser = static_cast<uid_t>(-1);

}  // namespace

absl::StatusOr<std::unique_ptr<PacketServer>> PacketServer::Start(const std::string& path, int mode,
                                                                  const std::string& field,
                                                                  Answer answer, Admit admit,
                                                                  Upkeep upkeep) {
  ASSIGN_OR_RETURN(Fd listener, ListenForPackets(path, mode, field));
  Fd wake(eventfd(0, EFD_CLOEXEC));
  if (!wake) return absl::ResourceExhaustedError("no file descriptor is left");
  return std::unique_ptr<PacketServer>(new PacketServer(path, std::move(listener), std::move(wake),
                                                        std::move(answer), std::move(admit),
                                                        std::move(upkeep)));
}

PacketServer::PacketServer(std::string path, Fd listener, Fd wake, Answer answer, Admit admit,
                           Upkeep upkeep)
    : path_(std::move(path)),
      listener_(std::move(listener)),
      wake_(std::move(wake)),
      answer_(std::move(answer)),
      admit_(std::move(admit)),
      upkeep_(std::move(upkeep)),
      thread_([this] { Run(); }) {}

PacketServer::~PacketServer() {
  unlink(path_.c_str());  // while this still listens: later the path may be another server's
  const uint64_t one = 1;
  REMESH_CHECK(write(wake_.get(), &one, sizeof(one)) == sizeof(one));
  thread_.join();
  closer_.Close(std::move(listener_));  // and with it the connections not yet accepted
}

void PacketServer::Run() {
  while (true) {
    const bool choked = Choked();
    std::vector<pollfd> waits = Waits(choked);
    if (poll(waits.data(), waits.size(), MillisToWait(choked)) < 0) continue;
    if (waits[0].revents != 0) break;
    const std::span<const pollfd> held = std::span(waits).subspan(1, held_.size());
    const std::span<const pollfd> others = std::span(waits).subspan(1 + held_.size());
    ServeHeld(held);
    if (choked) continue;
    ServeAll(others.subspan(1));
    if (others[0].revents != 0) Accept();
  }
  for (Connections* all : {&connections_, &held_}) {
    for (Connection& one : *all) Shut(std::move(one.fd));
  }
}

// Handles the end of a connection before its unread packets: reading them may have to wait, and the
// end must not.
void PacketServer::ServeHeld(std::span<const pollfd> waits) {
  auto next = held_.begin();
  for (const pollfd& wait : waits) {
    const auto here = next++;
    if ((wait.revents & ~POLLIN) != 0) {
      End(held_, here);
    } else if (wait.revents != 0 && !Choked()) {
      ServeOne(held_, here);
    }
  }
}

void PacketServer::ServeAll(std::span<const pollfd> waits) {
  auto next = connections_.begin();
  for (size_t i = 0; i < waits.size() && !Choked(); ++i) {
    const auto here = next++;
    if (waits[i].revents != 0) ServeOne(connections_, here);
  }
}

void PacketServer::ServeOne(Connections& from, Connections::iterator connection) {
  if (!Serve(*connection)) return End(from, connection);
  Connections& to = connection->at_ends.empty() ? connections_ : held_;
  to.splice(to.end(), from, connection);
}

bool PacketServer::Choked() const { return closer_.waiting() >= kClosingMax; }

std::vector<pollfd> PacketServer::Waits(bool choked) const {
  std::vector<pollfd> waits = {{wake_.get(), POLLIN, 0}};
  const short events = choked ? POLLRDHUP : POLLIN | POLLRDHUP;
  for (const Connection& one : held_) waits.push_back({one.fd.get(), events, 0});
  if (choked) return waits;
  waits.push_back({listener_.get(), POLLIN, 0});
  for (const Connection& one : connections_) waits.push_back({one.fd.get(), POLLIN, 0});
  return waits;
}

int PacketServer::MillisToWait(bool choked) {
  constexpr absl::Duration kLongest = absl::Hours(1), kChoked = absl::Milliseconds(10);
  absl::Duration wait = upkeep_ ? upkeep_() : absl::InfiniteDuration();
  if (choked) wait = std::min(wait, kChoked);
  if (wait == absl::InfiniteDuration()) return -1;
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(std::min(wait, kLongest), absl::Milliseconds(1))));
}

// Accepts many connections a round. If it accepted one, a peer that keeps many connections busy
// would hold up all new ones.
void PacketServer::Accept() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    if (!AcceptOne()) return;
  }
}

bool PacketServer::AcceptOne() {
  Fd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (connection) {
    TakeIn(std::move(connection));
    return true;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
  if (errno == EINTR || errno == ECONNABORTED) return true;
  // No descriptor or no memory is left. The user of the waiting connection is not known yet, and
  // the listener stays readable.
  if (!connections_.empty()) DropOldestOfBusiest(kNoUser);
  usleep(kPauseMicros);
  return false;
}

void PacketServer::TakeIn(Fd connection) {
  if (admit_ && !admit_(connection.get())) return Shut(std::move(connection));
  setsockopt(connection.get(), SOL_SOCKET, SO_SNDBUF, &kUnreadBytesMax, sizeof(kUnreadBytesMax));
  const uid_t uid = UserAt(connection.get());
  connections_.push_back({std::move(connection), uid, {}});
  if (connections_.size() > kConnectionsMax) DropOldestOfBusiest(uid);
}

void PacketServer::Shut(Fd connection) {
  shutdown(connection.get(), SHUT_RDWR);  // tells the peer now, however late the close is
  closer_.Close(std::move(connection));
}

void PacketServer::End(Connections& from, Connections::iterator connection) {
  Shut(std::move(connection->fd));
  for (const auto& at_end : connection->at_ends) at_end();
  from.erase(connection);
}

void PacketServer::DropOldestOfBusiest(uid_t newcomer) {
  End(connections_, OldestOfBusiest(connections_, newcomer));
}

bool PacketServer::Serve(Connection& connection) {
  const int fd = connection.fd.get();
  if (admit_ && !admit_(fd)) return false;
  std::vector<Fd> left_over;
  absl::StatusOr<Packet> packet = ReceivePacket(fd, kPacketBytesMax, &left_over);
  for (Fd& extra : left_over) closer_.Close(std::move(extra));
  if (absl::IsDeadlineExceeded(packet.status())) return true;
  if (!packet.ok()) return false;
  Reply reply = answer_(*packet);
  closer_.Close(std::move(packet->fd));
  if (reply.at_end) connection.at_ends.push_back(std::move(reply.at_end));
  return SendPacket(fd, reply.bytes, reply.fd == nullptr ? -1 : reply.fd->get()).ok();
}

}  // namespace remesh::worker
