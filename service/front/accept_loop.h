// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
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
#include "service/front/address_bars.h"
#include "service/front/connection_table.h"
#include "service/front/unfinished_calls.h"

namespace remesh::service {

// Accepts connections on a thread of its own, so that unknown callers cannot keep clients out,
// however many they are: gRPC's own listener accepts nothing more after it has once run out of
// descriptors.
//
// The loop hands a connection over once it has sent enough bytes, and closes one that stays silent
// for too long. When descriptors run short, or an address has too many connections, the
// longest-silent one makes room for the newest. When descriptors run short and none is silent, the
// address with most connections loses its newest to an address that has fewer; otherwise the new
// connection is closed. Connections with too many unfinished calls are ended, and their address
// gets no other for a while. Connections that send too many bytes outside of calls are ended as
// well. The first time, their address is not barred: a message that was too large or cancelled
// looks the same.
//
// While the owner stops, Retire() accepts nothing more, and the loop goes on to end connections.
class AcceptLoop {
 public:
  struct Options {
    int per_address_max = 256;
    std::chrono::nanoseconds silence_max = std::chrono::seconds(5);
    size_t silent_max = 1024;  // connections, of all addresses
    size_t opening_bytes = 1;  // a connection that sent fewer is silent; kOpeningMax at most
    // Null: any opening_bytes bytes are an opening. Otherwise tells whether the bytes sent so far,
    // of which at most opening_bytes are looked at, are one. A connection that sends opening_bytes
    // bytes without an opening is closed.
    std::function<bool(std::string_view said)> is_opening;
    // Connections that were handed over no longer count for per_address_max: the handler limits
    // them.
    bool forgets_taken = false;
    int reserved_descriptors = kReservedDescriptors;
    // Called when a connection that was handed over has been shut down, for its owner to close it.
    // Null: the owner learns of it from the connection.
    std::function<void(int connection)> on_shutdown;
    std::shared_ptr<UnfinishedCalls> unfinished;  // null: not counted
    std::shared_ptr<MessageBytes> messages;       // of all calls; null: noise is not limited
    NoiseLimits noise;
  };
  static constexpr size_t kOpeningMax = 8192;
  // Takes a nonblocking connection and must close it. Called on the loop's thread.
  using Handler = absl::AnyInvocable<void(int connection)>;

  // Raises the limit of open files first. `listeners` must be nonblocking.
  AcceptLoop(std::vector<Fd> listeners, Options options, Handler handler);
  // Closes the listeners and the silent connections.
  ~AcceptLoop();

  // Closes the listeners and the silent connections; once `grace` has passed, ends all others.
  // Thread-safe; to be called once.
  void Retire(std::chrono::nanoseconds grace);

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
  // `how`: events besides EPOLLIN.
  void Watch(int fd, uint32_t how = 0);
  // Returns whether to go on.
  bool OnEvent(int fd);
  // Looks at what a silent connection has sent. Returns whether it is no longer silent, or gone.
  bool OnWord(SilentList::iterator silent);
  void Accept(int listener);
  // Returns whether to go on accepting.
  bool AcceptOne(int listener);
  void TakeIn(Fd connection);
  // Returns whether the address may have one more connection; makes room where possible.
  bool Admit(int connection, const std::string& address);
  // Returns the connection at a descriptor that it may keep, or none.
  Fd MakeRoom(Fd connection);
  Fd AwaitRoom(const Fd& connection);
  Fd Remove(SilentList::iterator silent);
  // Looks among the connections of `address`; null: of all. False: none is silent.
  bool CloseLongestSilent(const std::string* address = nullptr);
  void EndExcessive();
  void EndNoisy();
  // Shuts the connection down unless its descriptor has been used again. Returns a descriptor of
  // the same connection, or none.
  Fd ShutDown(const ConnectionTable::Connection& connection);
  void StopAccepting();
  void EndAll();
  // `why` completes "connection ended: ".
  void End(const ConnectionTable::Connection& connection, const char* why,
           std::chrono::nanoseconds barred_for);
  void CloseOverdue();
  int MillisToWait() const;

  std::vector<Fd> listeners_;
  const Options options_;
  Handler handler_;
  const int ceiling_;  // the lowest descriptor that no connection may keep
  const Fd stop_;      // an eventfd
  const Fd events_;    // an epoll

  // Used only by the loop's thread.
  ConnectionTable table_;
  SilentList silent_;  // oldest first
  absl::flat_hash_map<int, SilentList::iterator> by_fd_;
  AddressBars bars_;
  std::chrono::steady_clock::time_point ends_all_at_ = std::chrono::steady_clock::time_point::max();

  std::atomic<int64_t> retire_nanos_{-1};  // the grace; below 0: the loop is to stop

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace remesh::service
