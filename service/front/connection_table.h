// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "service/front/message_bytes.h"

namespace remesh::service {

// Descriptors that connections leave free for files and all other uses. Few enough to be available
// even when the limit is low.
constexpr int kReservedDescriptors = 256;

// Raises this process's limit of open files to its hard limit. Returns the lowest descriptor that
// no connection may keep. The kernel gives out the lowest free descriptor, so a connection that
// gets this one or a higher one means that all below are in use; the `reserved` ones above stay
// free for others.
int RaiseDescriptorLimit(int reserved = kReservedDescriptors);

// The address that limits count a connection under: the IPv4 address, the /64 of an IPv6 address,
// or the user at the other end of a Unix socket.
std::string AddressOf(int connection);

// As AddressOf(), for the text of an IPv6 address. Returns any other text unchanged.
std::string NetworkOfIpv6(const std::string& address);

// The peer of a connection, in the form that grpc::ServerContext::peer() uses for a descriptor that
// was given to gRPC: "ipv4:1.2.3.4:5", "ipv6:%5B::1%5D:5", or "fd:7" for a Unix socket.
std::string PeerOf(int connection);

// An id of the socket that a descriptor refers to, unique while the socket is open; 0: no socket.
ino_t SocketOf(int fd);

// How much may be read from connections that belongs to no message of a call; see MessageBytes. A
// message on its way counts until it has arrived.
struct NoiseLimits {
  uint64_t of_connection = uint64_t{80} << 20;  // room for a message of the largest size
  uint64_t of_address = uint64_t{320} << 20;    // room for several clients that send one
  uint64_t of_all = uint64_t{1280} << 20;
  uint64_t least = uint64_t{16} << 20;    // an address with less is never the one to lose any
  uint64_t forgiven = uint64_t{4} << 20;  // a second, of each address: keepalive, cancelled calls
  // A connection that is read more slowly than this, though more has arrived, and that completes no
  // message, at so many looks in a row, keeps its reader busy with little: headers in tiny frames.
  uint64_t slow = uint64_t{64} << 10;
  int slow_looks = 4;
  // Of a Unix socket only what has arrived is known, and a busy machine may be slow to read it.
  int slow_looks_unix = 10;
  // Headers without an end cost several bytes of memory for each byte that is received, until the
  // process has no more. So bytes that are received without an answer are limited; an answer is
  // also the window update by which a client may send more of a message. All connections together
  // may have `unanswered` such bytes, and beyond that as long as the process grows by less than
  // `growth` times as much, and `growth_least`.
  uint64_t unanswered = uint64_t{1} << 20;
  uint64_t growth = 8;
  // More than a plan may take (planning_memory_limit), or a plan ends others' slow uploads.
  uint64_t growth_least = uint64_t{1536} << 20;
};

// The open accepted connections, by address. Closing a connection needs no notice: when an address
// has too many, the table checks which of its descriptors still refer to the same sockets. Not
// thread-safe.
class ConnectionTable {
 public:
  // A connection that was taken out of the table, for the caller to end.
  struct Connection {
    int fd = -1;
    ino_t socket = 0;  // see SocketOf(); another one: the descriptor has been used again
    std::string address;
    std::string peer;
    // Ended for the good of all, as the likeliest cause: its address must not be barred for this.
    bool suspected = false;
  };

  explicit ConnectionTable(int per_address_max) : per_address_max_(per_address_max) {}

  // Adds the connection, unless its address has as many open connections as it may have.
  bool Admit(int fd, const std::string& address);
  bool empty() const { return entries_.empty(); }
  // The number of open connections of an address.
  int Count(const std::string& address);
  // Each Take function removes a connection from the table; nullopt: there is none.
  std::optional<Connection> TakeAny();
  // Takes the connection of this peer (see PeerOf).
  std::optional<Connection> Take(const std::string& peer);
  // Takes the connection from which most has been read since MarkRead(), if that is much, and at
  // least this share of what was read from all. Not the one with most unread bytes: such a
  // connection waits because another keeps the reader busy. (Of a Unix socket only the unread bytes
  // are known.)
  std::optional<Connection> TakeMostRead(double least_share);
  void MarkRead();
  // Looks once a second at most, and in the meantime takes nothing. Takes connections above their
  // limit. Of every address above its limit takes the loudest connections, until the rest is within
  // the limit. If there is no such address, and all together are above their limit, takes the
  // loudest connection of the loudest address, unless that has less than the least. What an address
  // has sent counts on when its connections are closed. Does not know what Unix sockets have read.
  // Also takes connections that are slow to read (see NoiseLimits), and suspects those that sent
  // most that nothing answered while the process grew. `messages` counts what all connections send;
  // `memory`: of the process, in bytes.
  std::vector<Connection> TakeNoisy(MessageBytes& messages,
                                    std::chrono::steady_clock::time_point now, uint64_t memory,
                                    const NoiseLimits& limits = {});
  // Takes the newest connection of the address with most connections; also nullopt if that address
  // would not keep more connections than `newcomer` then has.
  std::optional<Connection> TakeNewestOfBusiest(const std::string& newcomer);

 private:
  struct Entry {
    ino_t socket = 0;
    std::string address;
    std::string peer;
    uint64_t order = 0;  // rises with each connection
    uint64_t read = 0;   // bytes read, at MarkRead()
    uint64_t heard = 0;  // bytes read, at TakeNoisy()
    uint64_t noise = 0;
    uint64_t unanswered = 0;  // bytes read since `sent` or a message
    uint64_t sent = 0;        // bytes sent to it when they were last much
    bool is_unix = false;
    int slow_looks = 0;  // in a row
  };
  using Descriptors = std::map<uint64_t, int>;  // oldest first
  void TakeSlow(const NoiseLimits& limits, std::vector<Connection>& taken);
  void TakeLoud(const NoiseLimits& limits, std::vector<Connection>& taken);
  void TakeUnanswered(uint64_t memory, const NoiseLimits& limits, std::vector<Connection>& taken);
  void Listen(const MessageBytes::ByPeer& messages, const NoiseLimits& limits);
  Connection TakenNoisy(int fd);
  std::optional<Connection> TakeLoudest(const std::string& address, uint64_t least);
  void Remove(int fd);
  Connection Taken(int fd);

  const int per_address_max_;
  absl::flat_hash_map<int, Entry> entries_;
  absl::flat_hash_map<std::string, Descriptors> by_address_;
  uint64_t next_order_ = 1;
  std::chrono::steady_clock::time_point listened_{};
  absl::flat_hash_map<std::string, uint64_t> noise_;  // by address, where there is any
  uint64_t calm_memory_ = 0;                          // of the process when little was unanswered
};

}  // namespace remesh::service
