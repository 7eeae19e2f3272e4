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

// A non-blocking TCP connection as records in and out: heads of a fixed size, each followed by as
// many bytes of body as its reader says. Bodies are never copied by us where they are long: they go
// from and to the memory of whoever owns them. Not thread-safe.
class Stream {
 public:
  // What happens to what arrives. Called from Read().
  class Reader {
   public:
    virtual ~Reader() = default;
    // How many bytes the next head has.
    virtual size_t head_bytes() const = 0;
    // A head is there. Sets `body` to where its body goes; no runs: it has none. False: it breaks
    // the rules, and the stream is to be closed.
    virtual bool OnHead(std::span<const std::byte> head, Runs& body) = 0;
    // The body is there, whole; not called for heads without.
    virtual void OnBody() = 0;
  };

  explicit Stream(Fd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  bool open() const { return static_cast<bool>(fd_); }
  // At once. What was to be written is dropped, without a call of `written`.
  void Close();
  // The same, and why() says why.
  void Fail(std::string why);

  // Encrypts what is queued and decrypts what arrives from now on; from inside Reader::OnHead(), whose
  // head was the last in the clear.
  void Seal(const PipeKey& out, const PipeKey& in);

  // Queues head and body; `written` is called from Write() when the kernel has all of it. What
  // `body` points to must stay until then, or until Close().
  template <typename Head>
  void Queue(const Head& head, ConstRuns body = {}, absl::AnyInvocable<void()> written = nullptr) {
    static_assert(std::is_trivially_copyable_v<Head>);
    const auto bytes = std::as_bytes(std::span(&head, 1));
    queue_.push_back({{bytes.begin(), bytes.end()}, std::move(body), std::move(written)});
  }
  bool has_output() const { return !queue_.empty(); }

  // Both move what can be moved without blocking, up to a bound, and return whether anything did.
  // An end or error closes the stream; why() says it.
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
  void BodyArrived(size_t bytes);
  bool Parse(Reader& reader);
  void Wrote(size_t bytes);

  Fd fd_;
  std::string why_;
  std::unique_ptr<SealedPipe> sealed_;  // null: in the clear
  size_t in_clear_ = 0;                 // of the queue's records, those queued before Seal()
  std::deque<Record> queue_;
  size_t place_ = 0;    // of the first record, that is being written
  size_t written_ = 0;  // of that place
  std::vector<std::byte> buffer_;
  size_t filled_ = 0;
  Runs body_;           // of what arrives; while any of it is missing, the buffer is empty
  size_t run_ = 0;      // the first of its runs that is not full
  size_t arrived_ = 0;  // of that run
};

}  // namespace remesh::worker::tcp
