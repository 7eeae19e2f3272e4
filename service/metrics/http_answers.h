// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/fd.h"

namespace remesh::service {

struct HttpAnswer {
  int code = 200;
  std::string body;  // text
};

struct HttpPath {
  std::function<HttpAnswer()> make;
  bool waits = true;  // making the answer may take long: it gets a thread of its own
};
using HttpPaths = std::map<std::string, HttpPath, std::less<>>;  // by name, such as "/metrics"

// The most bytes that the head of a request may have, from its method to its empty line.
constexpr size_t kHttpHeadMax = 8192;

// Whether `said`, what a client has sent so far, has the whole head of a request.
bool HasHttpHead(std::string_view said);

// Answers GET and HEAD, one request a connection, then closes the connection. Takes connections on
// which a request has arrived. Reads and ignores the body of a request.
//
// One thread serves all connections and waits for none, so slow readers cost only memory, and that
// is bounded: each connection has limited time in all, and when an address, or all addresses
// together, have too many connections, the newest ends the oldest connection of that address, or of
// the address with most. A path that may take long has a thread that makes its answers one after
// another; everyone who asks in the meantime gets the next answer.
class HttpAnswers {
 public:
  struct Options {
    int per_address_max = 64;
    int connections_max = 128;
    std::chrono::nanoseconds time_max = std::chrono::seconds(5);  // from Take() to the end
  };

  HttpAnswers(HttpPaths paths, Options options);
  // Ends all connections and waits for answers that are being made.
  ~HttpAnswers();

  HttpAnswers(const HttpAnswers&) = delete;
  HttpAnswers& operator=(const HttpAnswers&) = delete;

  // Takes a nonblocking connection from which a head can be read now. Thread-safe. Blocks while
  // connections come faster than the thread looks at them.
  void Take(Fd connection);

 private:
  struct Connection {
    Fd fd;
    std::string address;
    std::chrono::steady_clock::time_point deadline;
    bool with_body = true;
    std::string head;
    std::shared_ptr<const HttpAnswer> answer;  // null: it is still being made
    size_t sent = 0;                           // of head and body
    bool is_sent = false;  // head and body are sent; reads on until the client closes
  };
  // By number, which rises: oldest first.
  using Connections = std::map<uint64_t, Connection>;

  // Makes the answers of a path that waits.
  struct Maker {
    std::vector<uint64_t> waiting;  // connections that have asked; guarded by mutex_
    std::thread thread;
  };
  struct Made {
    std::vector<uint64_t> waited;
    std::shared_ptr<const HttpAnswer> answer;
  };

  void MakeAnswers(const HttpPath& path, Maker& maker);
  void Run();
  void OnWake();
  void OnEvent(uint64_t number);
  void Begin(Fd fd);
  void Ask(Connections::iterator connection, std::string_view path);
  void MakeRoom(const std::string& address);
  // The oldest connection of `address` that has its answer, or else the oldest one without.
  Connections::iterator Oldest(std::string_view address);
  void Reply(Connections::iterator connection, std::shared_ptr<const HttpAnswer> answer);
  void Send(Connections::iterator connection);
  // Discards input. Returns whether more may come.
  static bool Discard(const Connection& connection);
  // Sets the events to wait for.
  void Watch(Connections::iterator connection, uint32_t events);
  // Ends the connection and drops what is not yet sent.
  void Abort(Connections::iterator connection);
  void EndOverdue();
  int MillisToWait() const;

  const Options options_;
  const HttpPaths paths_;
  std::map<std::string, Maker, std::less<>> makers_;
  const Fd wake_;    // an eventfd
  const Fd events_;  // an epoll

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Fd> arrived_ ABSL_GUARDED_BY(mutex_);
  std::vector<Made> made_ ABSL_GUARDED_BY(mutex_);

  // Used only by the thread.
  Connections connections_;
  uint64_t next_number_ = 1;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace remesh::service
