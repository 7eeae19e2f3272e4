// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/tcp_stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace remesh::worker::tcp {
namespace {

// So that one connection does not keep others waiting.
constexpr size_t kTurnBytes = size_t{4} << 20;
constexpr size_t kBufferBytes = size_t{64} << 10;
constexpr size_t kVectors = 64;

bool IsWait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

void Stream::Close() {
  fd_ = Fd();
  queue_.clear();
  written_ = 0;
  body_ = {};
  filled_ = 0;
}

void Stream::Fail(std::string why) {
  why_ = std::move(why);
  Close();
}

bool Stream::Write() {
  bool any = false;
  for (size_t turn = 0; open() && !queue_.empty() && turn < kTurnBytes;) {
    std::array<iovec, kVectors> vectors;
    size_t count = 0, skip = written_, wanted = 0;
    const auto add = [&](const std::byte* data, size_t size) {
      const size_t skipped = std::min(skip, size);
      skip -= skipped;
      if (size == skipped) return;
      vectors[count++] = {const_cast<std::byte*>(data) + skipped, size - skipped};
      wanted += size - skipped;
    };
    for (auto it = queue_.begin(); it != queue_.end() && count + 2 <= kVectors; ++it) {
      add(it->head.data(), it->head.size());
      add(it->body.data(), it->body.size());
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (!IsWait(errno)) Fail(std::strerror(errno));
      return any;
    }
    any = true;
    turn += static_cast<size_t>(sent);
    Wrote(static_cast<size_t>(sent));
    if (static_cast<size_t>(sent) < wanted) return any;
  }
  return any;
}

void Stream::Wrote(size_t bytes) {
  written_ += bytes;
  while (!queue_.empty()) {
    const size_t size = queue_.front().head.size() + queue_.front().body.size();
    if (written_ < size) return;
    written_ -= size;
    auto done = std::move(queue_.front().written);
    queue_.pop_front();
    if (done) done();
  }
}

bool Stream::Read(Reader& reader) {
  if (buffer_.empty()) buffer_.resize(kBufferBytes);
  bool any = false;
  for (size_t turn = 0; open() && turn < kTurnBytes;) {
    std::array<iovec, 2> vectors;
    int count = 0;
    if (!body_.empty()) vectors[count++] = {body_.data(), body_.size()};
    vectors[count++] = {buffer_.data() + filled_, buffer_.size() - filled_};
    const size_t room = body_.size() + buffer_.size() - filled_;
    const ssize_t got = readv(fd_.get(), vectors.data(), count);
    if (got < 0 && IsWait(errno)) return any;
    any = true;
    if (got <= 0) {
      Fail(got == 0 ? "it closed the connection" : std::strerror(errno));
      return any;
    }
    turn += static_cast<size_t>(got);
    const size_t straight = std::min(static_cast<size_t>(got), body_.size());
    filled_ += static_cast<size_t>(got) - straight;
    if (straight > 0) {
      body_ = body_.subspan(straight);
      if (body_.empty()) reader.OnBody();
    }
    if (!Parse(reader)) return any;
    if (static_cast<size_t>(got) < room) return any;
  }
  return any;
}

// What is in the buffer. False once the stream is closed.
bool Stream::Parse(Reader& reader) {
  size_t at = 0;
  while (open()) {
    if (!body_.empty()) {
      const size_t copied = std::min(filled_ - at, body_.size());
      std::memcpy(body_.data(), buffer_.data() + at, copied);
      at += copied;
      body_ = body_.subspan(copied);
      if (!body_.empty()) break;
      reader.OnBody();
      continue;
    }
    const size_t head = reader.head_bytes();
    REMESH_CHECK(head > 0 && head <= buffer_.size());
    if (filled_ - at < head) break;
    const auto bytes = std::span(buffer_).subspan(at, head);
    at += head;
    if (!reader.OnHead(bytes, body_)) Fail("it broke the protocol");
  }
  if (!open()) return false;
  std::memmove(buffer_.data(), buffer_.data() + at, filled_ - at);
  filled_ -= at;
  return true;
}

}  // namespace remesh::worker::tcp
