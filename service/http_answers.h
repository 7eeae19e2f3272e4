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
  bool waits = true;  // may take long: on a thread of its own
};
using HttpPaths = std::map<std::string, HttpPath, std::less<>>;  // by name, such as "/metrics"

// The bytes that a request's head may have, from its method to its empty line.
constexpr size_t kHttpHeadMax = 8192;

// Whether what a client said so far has the head of a request.
bool HasHttpHead(std::string_view said);

// Answers GET and HEAD over connections whose request has come, one request each, then closes them.
// A body that comes with a request is read and ignored.
//
// One thread serves all connections and waits for none of them, so that who reads slowly costs
// memory only. That is bounded: each has so much time in all, and where an address or all together
// have too many connections, the oldest of the address that has most ends for the newest. A path that may take long has a thread
// that makes its answers, one after the other; all who asked meanwhile get the next.
class HttpAnswers {
 public:
  struct Options {
    int per_address_max = 64;
    int connections_max = 128;
    std::chrono::nanoseconds time_max = std::chrono::seconds(5);  // from Take() to the end
  };

  HttpAnswers(HttpPaths paths, Options options);
  // Ends all connections; waits for answers that are being made.
  ~HttpAnswers();

  HttpAnswers(const HttpAnswers&) = delete;
  HttpAnswers& operator=(const HttpAnswers&) = delete;

  // A nonblocking connection from which a head can be read now. Thread-safe; waits where
  // connections come faster than they can be looked at.
  void Take(Fd connection);

 private:
  struct Connection {
    Fd fd;
    std::string address;
    std::chrono::steady_clock::time_point deadline;
    bool with_body = true;
    std::string head;
    std::shared_ptr<const HttpAnswer> answer;  // null: it is being made
    size_t sent = 0;                           // of head and body
    bool is_sent = false;                      // all; what comes is read until the client closes
  };
  // By numbers that rise: oldest first.
  using Connections = std::map<uint64_t, Connection>;

  // Of a path that waits.
  struct Maker {
    std::vector<uint64_t> waiting;  // who has asked; guarded by mutex_
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
  // Of this address: of those that have their answer, or else of the others.
  Connections::iterator Oldest(std::string_view address);
  void Reply(Connections::iterator connection, std::shared_ptr<const HttpAnswer> answer);
  void Send(Connections::iterator connection);
  // Whether it can be read further.
  static bool Discard(const Connection& connection);
  // What its events are from now on.
  void Watch(Connections::iterator connection, uint32_t events);
  // Drops it with what was not sent yet.
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

  // The thread's own.
  Connections connections_;
  uint64_t next_number_ = 1;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace remesh::service
