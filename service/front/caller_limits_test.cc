// SPDX-License-Identifier: Apache-2.0
#include "service/front/caller_limits.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_posix.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/fd.h"
#include "service/testing/loopback.h"

namespace remesh::service {
namespace {

std::atomic<size_t> most_at_once = 0;  // bytes that one recvmsg() had room for

}  // namespace
}  // namespace remesh::service

// In this process, gRPC calls this one.
extern "C" ssize_t recvmsg(int fd, msghdr* message, int flags) {
  size_t room = 0;
  for (size_t i = 0; i < message->msg_iovlen; ++i) room += message->msg_iov[i].iov_len;
  auto& most = remesh::service::most_at_once;
  most = std::max(most.load(), room);
  return syscall(SYS_recvmsg, fd, message, flags);
}

namespace remesh::service {
namespace {

// HTTP/2's preface and empty SETTINGS; then frames of a type that is none, which must be ignored.
constexpr std::string_view kPreface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
constexpr std::string_view kUnknown("\0\0\0\xc8\0\0\0\0\0", 9);

std::string ManyFrames() {
  std::string frames;
  while (frames.size() < 8 << 20) frames.append(kUnknown);
  return frames;
}

bool SendAll(const Fd& to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

// Waits until the other side has read everything, as far as its answers are read.
void ReadToTheEnd(const Fd& connection) {
  shutdown(connection.get(), SHUT_WR);
  char bytes[4096];
  while (recv(connection.get(), bytes, sizeof(bytes), 0) > 0) {
  }
}

// With room for as much as came without a pause before, gRPC aborted the process when that was 2
// GiB: "assertion failed: tcp->incoming_buffer->length != 0".
TEST(CallerLimitsTest, GrpcReadsNoMoreAtOnceHoweverMuchComes) {
  BoundReads();
  grpc::AsyncGenericService none;
  grpc::ServerBuilder builder;
  LimitCallers(builder);
  builder.RegisterAsyncGenericService(&none);
  const auto queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  LoopbackPair pair;
  std::thread reads([&] {
    grpc::AddInsecureChannelFromFd(server.get(), pair.server.Release());
    void* tag;
    bool ok;
    while (queue->Next(&tag, &ok)) {
    }
  });
  const std::string frames = ManyFrames();
  EXPECT_TRUE(SendAll(pair.client, kPreface));
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(SendAll(pair.client, frames));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ReadToTheEnd(pair.client);
  server->Shutdown();
  queue->Shutdown();
  reads.join();
  EXPECT_GT(most_at_once, 0);
  EXPECT_LE(most_at_once, 64 << 10);
}

}  // namespace
}  // namespace remesh::service
