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

// Limit for one turn, so that one connection does not keep others waiting.
constexpr size_t kTurnBytes = size_t{4} << 20;
constexpr size_t kBufferBytes = size_t{64} << 10;
// Long bodies come one after another, with a few short ones between them, such as their digests.
// They go straight to their places, except for what was read with their heads, which is copied. So
// among them no more is read ahead than the short ones take.
constexpr size_t kLongBodyBytes = size_t{16} << 10;
constexpr size_t kAheadOfLongBody = 256;
constexpr size_t kVectors = 256;

std::string Why(int error) {
  return error == EBADMSG ? "what it sent is not authentic" : std::strerror(error);
}

bool IsWait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

void Stream::Close() {
  fd_ = Fd();
  queue_.clear();
  place_ = written_ = 0;
  body_.clear();
  run_ = arrived_ = 0;
  filled_ = 0;
}

void Stream::Fail(std::string why) {
  why_ = std::move(why);
  Close();
}

void Stream::Seal(const PipeKey& out, const PipeKey& in) {
  REMESH_CHECK(sealed_ == nullptr);
  sealed_ = std::make_unique<SealedPipe>(out, in);
  in_clear_ = queue_.size();
}

ssize_t Stream::WriteSome(std::span<const iovec> vectors) {
  if (sealed_ != nullptr && in_clear_ == 0) return sealed_->Write(fd_.get(), vectors);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(vectors.data());
  message.msg_iovlen = vectors.size();
  return sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t Stream::ReadSome(std::span<const iovec> vectors) {
  if (sealed_ != nullptr) return sealed_->Read(fd_.get(), vectors);
  return readv(fd_.get(), vectors.data(), static_cast<int>(vectors.size()));
}

bool Stream::Write() {
  bool any = false;
  for (size_t turn = 0; open() && !queue_.empty() && turn < kTurnBytes;) {
    std::array<iovec, kVectors> vectors;
    size_t count = 0, wanted = 0, place = place_, written = written_;
    const auto end =
        in_clear_ > 0 ? queue_.begin() + static_cast<ptrdiff_t>(in_clear_) : queue_.end();
    for (auto it = queue_.begin(); it != end && count < kVectors; ++it, place = 0) {
      for (; place < it->places() && count < kVectors; ++place, written = 0) {
        const std::span<const std::byte> rest = it->place(place).subspan(written);
        if (rest.empty()) continue;
        vectors[count++] = {const_cast<std::byte*>(rest.data()), rest.size()};
        wanted += rest.size();
      }
    }
    const ssize_t sent = WriteSome(std::span(vectors).first(count));
    if (sent < 0) {
      if (!IsWait(errno)) Fail(Why(errno));
      return any;
    }
    any = true;
    turn += static_cast<size_t>(sent);
    Wrote(static_cast<size_t>(sent));
    // A short write means that the socket is full. With encryption, a write is at most one record
    // and always short.
    if (sealed_ == nullptr && static_cast<size_t>(sent) < wanted) return any;
  }
  return any;
}

void Stream::Wrote(size_t bytes) {
  while (!queue_.empty()) {
    Record& record = queue_.front();
    for (; place_ < record.places(); ++place_, written_ = 0) {
      const size_t left = record.place(place_).size() - written_;
      if (bytes < left) {
        written_ += bytes;
        return;
      }
      bytes -= left;
    }
    auto done = std::move(record.written);
    queue_.pop_front();
    if (in_clear_ > 0) --in_clear_;
    place_ = 0;
    if (done) done();
  }
}

bool Stream::Read(Reader& reader) {
  if (buffer_.empty()) buffer_.resize(kBufferBytes);
  bool any = false;
  // No event announces bytes that the pipe has read already, so they are taken in the same turn.
  for (size_t turn = 0;
       open() && (turn < kTurnBytes || (sealed_ != nullptr && sealed_->has_input()));) {
    std::array<iovec, kVectors> vectors;
    size_t count = 0, straight = 0;
    for (size_t run = run_, skip = arrived_; run < body_.size() && count < kVectors;
         ++run, skip = 0) {
      vectors[count++] = {body_[run].data() + skip, body_[run].size() - skip};
      straight += vectors[count - 1].iov_len;
    }
    size_t room = straight;
    if (count < kVectors) {  // there is room for the whole body: also read what follows
      const size_t ahead = ReadAhead();
      vectors[count++] = {buffer_.data() + filled_, ahead};
      room += ahead;
    }
    const ssize_t got = ReadSome(std::span(vectors).first(count));
    if (got < 0 && IsWait(errno)) return any;
    any = true;
    if (got <= 0) {
      Fail(got == 0 ? "it closed the connection" : Why(errno));
      return any;
    }
    turn += static_cast<size_t>(got);
    straight = std::min(straight, static_cast<size_t>(got));
    filled_ += static_cast<size_t>(got) - straight;
    if (straight > 0) {
      BodyArrived(straight);
      if (!body_missing()) reader.OnBody();
    }
    if (!Parse(reader)) return any;
    if (sealed_ == nullptr && static_cast<size_t>(got) < room) return any;
  }
  return any;
}

size_t Stream::ReadAhead() const {
  const size_t room = buffer_.size() - filled_;
  return short_bodies_ > kShortBetweenLong ? room : std::min(room, kAheadOfLongBody);
}

void Stream::BodyArrived(size_t bytes) {
  while (body_missing() && bytes >= body_[run_].size() - arrived_) {
    bytes -= body_[run_++].size() - arrived_;
    arrived_ = 0;
  }
  arrived_ += bytes;
}

// Notes whether the body that arrives now is a long one.
void Stream::NoteLength() {
  if (body_.empty()) return;
  size_t bytes = 0;
  for (const auto& run : body_) bytes += run.size();
  short_bodies_ = bytes < kLongBodyBytes ? std::min(short_bodies_, kShortBetweenLong) + 1 : 0;
}

// Parses what is in the buffer. Returns false once the stream is closed.
bool Stream::Parse(Reader& reader) {
  size_t at = 0;
  while (open()) {
    if (body_missing()) {
      const std::span<std::byte> rest = body_[run_].subspan(arrived_);
      const size_t copied = std::min(filled_ - at, rest.size());
      std::memcpy(rest.data(), buffer_.data() + at, copied);
      at += copied;
      BodyArrived(copied);
      if (!body_missing()) {
        reader.OnBody();
      } else if (at == filled_) {
        break;
      }
      continue;
    }
    const size_t head = reader.head_bytes();
    REMESH_CHECK(head > 0 && head <= buffer_.size());
    if (filled_ - at < head) break;
    const auto bytes = std::span(buffer_).subspan(at, head);
    at += head;
    body_.clear();
    run_ = arrived_ = 0;
    const bool in_clear = sealed_ == nullptr;
    if (!reader.OnHead(bytes, body_)) Fail("it broke the protocol");
    std::erase_if(body_, [](const auto& run) { return run.empty(); });
    NoteLength();
    if (open() && in_clear && sealed_ != nullptr) {
      sealed_->Feed(std::span(buffer_).subspan(at, filled_ - at));
      at = filled_;
    }
  }
  if (!open()) return false;
  std::memmove(buffer_.data(), buffer_.data() + at, filled_ - at);
  filled_ -= at;
  return true;
}

}  // namespace remesh::worker::tcp
