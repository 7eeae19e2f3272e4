// SPDX-License-Identifier: Apache-2.0
#include "worker/keeper/packet_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"

namespace remesh::worker {

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
  unlink(path_.c_str());  // while we listen: after that it may be another's
  const uint64_t one = 1;
  REMESH_CHECK(write(wake_.get(), &one, sizeof(one)) == sizeof(one));
  thread_.join();
}

void PacketServer::Run() {
  while (true) {
    std::vector<pollfd> waits = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Fd& connection : connections_) waits.push_back({connection.get(), POLLIN, 0});
    if (poll(waits.data(), waits.size(), MillisToUpkeep()) < 0) continue;
    if (waits[0].revents != 0) return;
    auto next = connections_.begin();
    for (size_t i = 2; i < waits.size(); ++i) {
      const auto here = next++;
      if (waits[i].revents == 0) continue;
      if (Serve(here->get())) {
        connections_.splice(connections_.end(), connections_, here);
      } else {
        connections_.erase(here);
      }
    }
    if (waits[1].revents != 0) Accept();
  }
}

int PacketServer::MillisToUpkeep() {
  constexpr absl::Duration kLongest = absl::Hours(1);
  const absl::Duration wait = upkeep_ ? upkeep_() : absl::InfiniteDuration();
  if (wait == absl::InfiniteDuration()) return -1;
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(std::min(wait, kLongest), absl::Milliseconds(1))));
}

void PacketServer::Accept() {
  Fd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool no_descriptor = !connection && (errno == EMFILE || errno == ENFILE);
  if (connection && admit_ && !admit_(connection.get())) return;
  const bool crowded = connection && connections_.size() >= kConnectionsMax;
  if ((no_descriptor || crowded) && !connections_.empty()) connections_.pop_front();
  if (no_descriptor) usleep(10'000);  // the listener stays readable
  if (connection) connections_.push_back(std::move(connection));
}

bool PacketServer::Serve(int connection) {
  absl::StatusOr<Packet> packet = ReceivePacket(connection, kPacketBytesMax);
  if (absl::IsDeadlineExceeded(packet.status())) return true;
  if (!packet.ok()) return false;
  const Reply reply = answer_(*std::move(packet));
  return SendPacket(connection, reply.bytes, reply.fd == nullptr ? -1 : reply.fd->get()).ok();
}

}  // namespace remesh::worker
