// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/fd.h"
#include "worker/transport/sealed_pipe.h"
#include "worker/transport/transport.h"

namespace remesh::worker::tcp {

// A non-blocking TCP connection as a sequence of records in each direction. A record is a head of a
// fixed size, followed by as many bytes of body as its reader says. Long bodies are never copied by
// us: they go from and to their owner's memory. Not thread-safe.
class Stream {
 public:
  // Handles what arrives. Called from Read().
  class Reader {
   public:
    virtual ~Reader() = default;
    // Size of the next head in bytes.
    virtual size_t head_bytes() const = 0;
    // A head has arrived. Sets `body` to where its body goes; no runs if it has none. Returns false
    // if the head breaks the rules, and the stream must be closed.
    virtual bool OnHead(std::span<const std::byte> head, Runs& body) = 0;
    // The whole body has arrived. Not called for heads without a body.
    virtual void OnBody() = 0;
  };

  explicit Stream(Fd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  bool open() const { return static_cast<bool>(fd_); }
  // Closes at once. Queued records are dropped, and their `written` is not called.
  void Close();
  // Closes, and sets why().
  void Fail(std::string why);

  // From now on, encrypts what is queued and decrypts what arrives. To be called inside
  // Reader::OnHead(), whose head was the last in the clear.
  void Seal(const PipeKey& out, const PipeKey& in);

  // Queues a head and a body. Write() calls `written` when the kernel has all of it. The memory
  // behind `body` must stay until then, or until Close().
  template <typename Head>
  void Queue(const Head& head, ConstRuns body = {}, absl::AnyInvocable<void()> written = nullptr) {
    static_assert(std::is_trivially_copyable_v<Head>);
    const auto bytes = std::as_bytes(std::span(&head, 1));
    queue_.push_back({{bytes.begin(), bytes.end()}, std::move(body), std::move(written)});
  }
  bool has_output() const { return !queue_.empty(); }

  // Write() and Read() move what can be moved without blocking, up to a bound, and return whether
  // they moved anything. An end or an error closes the stream; why() gives the reason.
  bool Write();
  bool Read(Reader& reader);

  const std::string& why() const { return why_; }

 private:
  struct Record {
    std::vector<std::byte> head;
    ConstRuns body;
    absl::AnyInvocable<void()> written;

    // The head, then the body's runs.
    size_t places() const { return 1 + body.size(); }
    std::span<const std::byte> place(size_t i) const {
      return i == 0 ? std::span<const std::byte>(head) : body[i - 1];
    }
  };

  // As sendmsg(2) and readv(2).
  ssize_t WriteSome(std::span<const iovec> vectors);
  ssize_t ReadSome(std::span<const iovec> vectors);
  bool body_missing() const { return run_ < body_.size(); }
  // How many bytes to read beyond the missing part of the body, if there are any.
  size_t ReadAhead() const;
  void NoteLength();
  void BodyArrived(size_t bytes);
  bool Parse(Reader& reader);
  void Wrote(size_t bytes);

  // So many short bodies may come between long ones.
  static constexpr int kShortBetweenLong = 4;

  Fd fd_;
  std::string why_;
  std::unique_ptr<SealedPipe> sealed_;  // null: in the clear
  size_t in_clear_ = 0;                 // number of queued records from before Seal()
  std::deque<Record> queue_;
  size_t place_ = 0;    // place that is being written, of the first record
  size_t written_ = 0;  // of that place
  std::vector<std::byte> buffer_;
  size_t filled_ = 0;
  Runs body_;           // of the arriving record; while any of it is missing, the buffer is empty
  size_t run_ = 0;      // the first of its runs that is not full
  size_t arrived_ = 0;  // of that run
  int short_bodies_ = kShortBetweenLong + 1;  // since the last long one; no need to count more
};

}  // namespace remesh::worker::tcp
