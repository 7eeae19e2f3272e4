// SPDX-License-Identifier: Apache-2.0
#include "worker/keeper/keeper_client.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "worker/keeper/packet_server.h"

namespace remesh::worker {
namespace {

constexpr timeval kPatience{.tv_sec = 2, .tv_usec = 0};

absl::Status Unreachable(const std::string& socket_path, const absl::Status& why) {
  return MakeError(
      absl::StatusCode::kUnavailable,
      absl::StrCat("the keeper at ", socket_path, " does not answer: ", std::string(why.message())),
      {"KEEPER_UNREACHABLE",
       {{"keeper_socket", socket_path}, {"error", std::string(why.message())}}});
}

}  // namespace

absl::Status KeeperClient::Keep(const std::string& name, int64_t bytes,
                                const std::string& device_uuid, int handle) {
  worker::KeeperRequest request;
  worker::KeptSegment& segment = *request.mutable_keep();
  segment.set_owner(owner_);
  segment.set_name(name);
  segment.set_bytes(bytes);
  segment.set_device_uuid(device_uuid);
  return Ask(request, handle).status();
}

absl::StatusOr<KeeperClient::Found> KeeperClient::Find(const std::string& name) {
  worker::KeeperRequest request;
  request.mutable_find()->set_owner(owner_);
  request.mutable_find()->set_name(name);
  return Ask(request, -1);
}

absl::Status KeeperClient::Drop(const std::string& name) {
  worker::KeeperRequest request;
  request.mutable_drop()->set_owner(owner_);
  request.mutable_drop()->set_name(name);
  return Ask(request, -1).status();
}

absl::StatusOr<std::vector<std::string>> KeeperClient::List() {
  std::vector<std::string> names;
  worker::KeeperRequest request;
  request.mutable_next()->set_owner(owner_);
  while (true) {
    auto found = Ask(request, -1);
    if (absl::IsNotFound(found.status())) return names;
    RETURN_IF_ERROR(found.status());
    names.push_back(found->segment.name());
    request.mutable_next()->set_name(names.back());
  }
}

int64_t KeeperClient::connections() const {
  absl::MutexLock lock(&mutex_);
  return connections_;
}

absl::StatusOr<Packet> KeeperClient::Exchange(const std::string& bytes, int handle) {
  if (!socket_) {
    ASSIGN_OR_RETURN(socket_, ConnectForPackets(socket_path_));
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
    ++connections_;
  }
  RETURN_IF_ERROR(SendPacket(socket_.get(), bytes, handle));
  return ReceivePacket(socket_.get(), PacketServer::kPacketBytesMax);
}

absl::StatusOr<KeeperClient::Found> KeeperClient::Ask(const worker::KeeperRequest& request,
                                                      int handle) {
  const std::string bytes = request.SerializeAsString();
  absl::MutexLock lock(&mutex_);
  absl::StatusOr<Packet> packet = Exchange(bytes, handle);
  // The keeper may have restarted since the last request. Requests can be repeated safely. A
  // timeout is not retried: the retry would wait for the whole time again.
  if (absl::IsUnavailable(packet.status())) {
    socket_.Reset();
    packet = Exchange(bytes, handle);
  }
  worker::KeeperResponse response;
  if (packet.ok() && !response.ParseFromString(packet->bytes))
    packet = absl::DataLossError("its answer is not a KeeperResponse");
  if (!packet.ok()) {
    socket_.Reset();  // a late answer must not be taken for the next request's
    return Unreachable(socket_path_, packet.status());
  }
  if (response.code() != 0)
    return absl::Status(static_cast<absl::StatusCode>(response.code()), response.message());
  return Found{std::move(*response.mutable_segment()), std::move(packet->fd)};
}

}  // namespace remesh::worker
