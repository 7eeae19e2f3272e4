// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "base/fd.h"
#include "service/connection_table.h"
#include "service/unfinished_calls.h"

namespace remesh::service {

// Accepts connections, on a thread of its own, so that no number of unknown callers keeps clients
// out: gRPC's own listener accepts nothing more after it once ran out of descriptors.
//
// A connection is handed over when it has said enough; one that is silent for too long is closed.
// When descriptors run short, or an address has too many, the one that has been silent longest
// makes room for the newest. Where all have spoken and descriptors are short, the address that has
// most of them loses its newest to one that has fewer; else the newest is closed. A connection with
// too many unfinished calls ends, and its address gets no other for a while.
class AcceptLoop {
 public:
  struct Options {
    int per_address_max = 256;
    std::chrono::nanoseconds silence_max = std::chrono::seconds(5);
    size_t silent_max = 1024;  // connections, of all addresses
    size_t opening_bytes = 1;  // who has said less is silent; kOpeningMax at most
    // Null: any such bytes are an opening. Else whether what was said, of which opening_bytes are
    // looked at, is one already; who says as many without one is closed.
    std::function<bool(std::string_view said)> is_opening;
    // Who was handed over counts for per_address_max no more: the handler limits them.
    bool forgets_taken = false;
    int reserved_descriptors = kReservedDescriptors;
    std::shared_ptr<UnfinishedCalls> unfinished;  // null: nobody counts them
  };
  static constexpr size_t kOpeningMax = 8192;
  // Takes a nonblocking connection, which is the handler's to close. On the loop's thread.
  using Handler = absl::AnyInvocable<void(int connection)>;

  // Raises the limit of open files first. `listeners` are nonblocking.
  AcceptLoop(std::vector<Fd> listeners, Options options, Handler handler);
  // Closes the listeners and what is still silent.
  ~AcceptLoop();

  AcceptLoop(const AcceptLoop&) = delete;
  AcceptLoop& operator=(const AcceptLoop&) = delete;

 private:
  struct Silent {
    Fd connection;
    std::chrono::steady_clock::time_point deadline;
    std::string address;
  };
  using SilentList = std::list<Silent>;

  void Run();
  // `how`: besides EPOLLIN.
  void Watch(int fd, uint32_t how = 0);
  void OnEvent(int fd);
  // Looks at what a silent connection has said. Whether it is silent no longer, or gone.
  bool OnWord(SilentList::iterator silent);
  bool IsOpening(std::string_view said) const;
  void Accept(int listener);
  // Whether to go on accepting.
  bool AcceptOne(int listener);
  void TakeIn(Fd connection);
  // Whether its address may have one more; makes room where it can.
  bool Admit(int connection, const std::string& address);
  // The connection at a descriptor that it may keep, or none.
  Fd MakeRoom(Fd connection);
  Fd AwaitRoom(const Fd& connection);
  Fd Lowered(const Fd& connection) const;
  Fd Remove(SilentList::iterator silent);
  // Of this address, or of all. False: there is none.
  bool CloseLongestSilent(const std::string* address = nullptr);
  void EndExcessive();
  void End(int connection);
  bool IsBarred(const std::string& address);
  void CloseOverdue();
  int MillisToWait() const;

  const std::vector<Fd> listeners_;
  const Options options_;
  Handler handler_;
  const int ceiling_;  // the lowest descriptor that no connection may keep
  const Fd stop_;      // an eventfd
  const Fd events_;    // an epoll

  // The thread's own.
  ConnectionTable table_;
  SilentList silent_;  // oldest first
  absl::flat_hash_map<int, SilentList::iterator> by_fd_;
  absl::flat_hash_map<std::string, std::chrono::steady_clock::time_point> barred_;  // until when
  bool stopping_ = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace remesh::service
