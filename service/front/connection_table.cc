// SPDX-License-Identifier: Apache-2.0
#include "service/front/connection_table.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace remesh::service {
namespace {

constexpr uint64_t kManyBytes = 4096;
constexpr auto kListenEvery = std::chrono::seconds(1);
constexpr uint64_t kQuietParts = 16;     // a connection with such a part of the least is quiet
constexpr uint64_t kConnections = 1024;  // that share what is forgiven to an address
// A connection that we send so much has an answer: keepalive takes 17 bytes in ten seconds.
constexpr uint64_t kAnswer = 64;
constexpr uint64_t kUnansweredLeast = 4096;  // of a connection

std::string Text(int family, const void* bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(family, bytes, text, sizeof(text));
  return text;
}

std::string Text6(in6_addr address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) return Text(AF_INET, &address.s6_addr[12]);
  std::fill(address.s6_addr + 8, address.s6_addr + 16, 0);
  return absl::StrCat(Text(AF_INET6, &address), "/64");
}

uint64_t UnreadOf(int connection) {
  int unread = 0;
  return ioctl(connection, FIONREAD, &unread) == 0 ? static_cast<uint64_t>(unread) : 0;
}

struct Traffic {
  uint64_t read = 0;
  uint64_t sent = 0;
};

// Bytes of a TCP connection; nullopt for other sockets.
std::optional<Traffic> TrafficOf(int connection) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  const uint64_t unread = UnreadOf(connection);  // first: it cannot exceed the bytes received
  if (getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return std::nullopt;
  return Traffic{
      .read = info.tcpi_bytes_received - std::min<uint64_t>(unread, info.tcpi_bytes_received),
      .sent = info.tcpi_bytes_acked};
}

std::string UserOf(int connection) {
  ucred user{};
  socklen_t length = sizeof(user);
  getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &user, &length);
  return absl::StrCat("uid ", user.uid);
}

}  // namespace

int RaiseDescriptorLimit(int reserved) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<int>::max();
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  const rlim_t most = std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int>::max());
  return static_cast<int>(most - std::min<rlim_t>(static_cast<rlim_t>(reserved), most / 2));
}

std::string AddressOf(int connection) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  getpeername(connection, reinterpret_cast<sockaddr*>(&peer), &length);
  if (peer.ss_family == AF_INET)
    return Text(AF_INET, &reinterpret_cast<const sockaddr_in&>(peer).sin_addr);
  if (peer.ss_family == AF_INET6)
    return Text6(reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr);
  return UserOf(connection);
}

std::string NetworkOfIpv6(const std::string& address) {
  in6_addr bytes;
  return inet_pton(AF_INET6, address.c_str(), &bytes) == 1 ? Text6(bytes) : address;
}

std::string PeerOf(int connection) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  getpeername(connection, reinterpret_cast<sockaddr*>(&peer), &length);
  if (peer.ss_family == AF_INET) {
    const auto& ip4 = reinterpret_cast<const sockaddr_in&>(peer);
    return absl::StrCat("ipv4:", Text(AF_INET, &ip4.sin_addr), ":", ntohs(ip4.sin_port));
  }
  if (peer.ss_family != AF_INET6) return absl::StrCat("fd:", connection);
  const auto& ip6 = reinterpret_cast<const sockaddr_in6&>(peer);
  const int port = ntohs(ip6.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&ip6.sin6_addr))
    return absl::StrCat("ipv4:", Text(AF_INET, &ip6.sin6_addr.s6_addr[12]), ":", port);
  const std::string scope =
      ip6.sin6_scope_id == 0 ? "" : absl::StrCat("%25", ip6.sin6_scope_id);  // link-local
  return absl::StrCat("ipv6:%5B", Text(AF_INET6, &ip6.sin6_addr), scope, "%5D:", port);
}

ino_t SocketOf(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) ? info.st_ino : 0;
}

bool ConnectionTable::Admit(int fd, const std::string& address) {
  Remove(fd);  // an older connection with this descriptor must be closed
  const auto open = by_address_.find(address);
  if (open != by_address_.end() && static_cast<int>(open->second.size()) >= per_address_max_ &&
      Count(address) >= per_address_max_) {
    return false;
  }
  entries_[fd] = {
      .socket = SocketOf(fd), .address = address, .peer = PeerOf(fd), .order = next_order_};
  by_address_[address][next_order_++] = fd;
  return true;
}

int ConnectionTable::Count(const std::string& address) {
  const auto open = by_address_.find(address);
  if (open == by_address_.end()) return 0;
  const Descriptors descriptors = open->second;
  for (const auto& [order, fd] : descriptors) {
    if (SocketOf(fd) != entries_[fd].socket) Remove(fd);
  }
  const auto left = by_address_.find(address);
  return left == by_address_.end() ? 0 : static_cast<int>(left->second.size());
}

std::optional<ConnectionTable::Connection> ConnectionTable::TakeAny() {
  if (entries_.empty()) return std::nullopt;
  return Taken(entries_.begin()->first);
}

std::optional<ConnectionTable::Connection> ConnectionTable::Take(const std::string& peer) {
  for (const auto& [fd, entry] : entries_) {
    if (entry.peer == peer && SocketOf(fd) == entry.socket) return Taken(fd);
  }
  return std::nullopt;
}

std::optional<ConnectionTable::Connection> ConnectionTable::TakeMostRead(double least_share) {
  std::optional<int> found;
  uint64_t most = kManyBytes, all = 0;
  for (const auto& [fd, entry] : entries_) {
    if (SocketOf(fd) != entry.socket) continue;
    const auto traffic = TrafficOf(fd);
    const uint64_t read = traffic ? traffic->read : entry.read + UnreadOf(fd);
    if (read <= entry.read) continue;
    all += read - entry.read;
    if (read < entry.read + most) continue;
    most = read - entry.read;
    found = fd;
  }
  if (!found || static_cast<double>(most) < least_share * static_cast<double>(all)) {
    return std::nullopt;
  }
  return Taken(*found);
}

void ConnectionTable::MarkRead() {
  for (auto& [fd, entry] : entries_) {
    if (SocketOf(fd) == entry.socket) entry.read = TrafficOf(fd).value_or(Traffic()).read;
  }
}

std::vector<ConnectionTable::Connection> ConnectionTable::TakeNoisy(
    MessageBytes& messages, std::chrono::steady_clock::time_point now, uint64_t memory,
    const NoiseLimits& limits) {
  if (now - listened_ < kListenEvery) return {};
  listened_ = now;
  Listen(messages.Take(), limits);
  std::vector<Connection> taken;
  TakeSlow(limits, taken);
  TakeUnanswered(memory, limits, taken);
  TakeLoud(limits, taken);
  uint64_t all = 0;
  std::pair<uint64_t, std::string> loudest;
  for (auto& [address, noise] : noise_) {
    all += noise;
    loudest = std::max(loudest, {noise, address});
    while (noise > limits.of_address) {
      auto connection = TakeLoudest(address, limits.least / kQuietParts);
      if (!connection) break;  // the rest was sent by connections that are closed
      taken.push_back(*std::move(connection));
    }
    noise = std::min(noise, limits.of_address);
  }
  if (!taken.empty() || all <= limits.of_all || loudest.first < limits.least) return taken;
  if (auto connection = TakeLoudest(loudest.second, limits.least / kQuietParts))
    taken.push_back(*std::move(connection));
  return taken;
}

void ConnectionTable::TakeSlow(const NoiseLimits& limits, std::vector<Connection>& taken) {
  std::vector<int> slow;
  absl::flat_hash_map<std::string, std::vector<int>> of_users;
  size_t most = 0;
  for (const auto& [fd, entry] : entries_) {
    if (entry.slow_looks < (entry.is_unix ? limits.slow_looks_unix : limits.slow_looks)) continue;
    if (!entry.is_unix) {
      slow.push_back(fd);
      continue;
    }
    of_users[entry.address].push_back(fd);
    most = std::max(most, of_users[entry.address].size());
  }
  for (const auto& [user, connections] : of_users) {
    // Those of other users may wait because of these.
    if (connections.size() == most) slow.insert(slow.end(), connections.begin(), connections.end());
  }
  for (const int fd : slow) taken.push_back(Taken(fd));
}

void ConnectionTable::TakeLoud(const NoiseLimits& limits, std::vector<Connection>& taken) {
  std::vector<int> loud;
  for (const auto& [fd, entry] : entries_) {
    if (entry.noise <= limits.of_connection) continue;
    const auto of_address = noise_.find(entry.address);  // less what is forgiven
    if (of_address != noise_.end() && of_address->second > limits.of_connection) loud.push_back(fd);
  }
  for (const int fd : loud) taken.push_back(TakenNoisy(fd));
}

void ConnectionTable::TakeUnanswered(uint64_t memory, const NoiseLimits& limits,
                                     std::vector<Connection>& taken) {
  uint64_t all = 0;
  std::vector<std::pair<uint64_t, int>> by_bytes;
  for (const auto& [fd, entry] : entries_) {
    if (entry.unanswered < kUnansweredLeast) continue;
    all += entry.unanswered;
    by_bytes.emplace_back(entry.unanswered, fd);
  }
  calm_memory_ = all < limits.unanswered ? memory : std::min(calm_memory_, memory);
  if (memory <= calm_memory_ + limits.growth * all + limits.growth_least) return;
  calm_memory_ = memory;
  std::ranges::sort(by_bytes, std::greater<>());
  uint64_t left = all;
  for (const auto& [bytes, fd] : by_bytes) {
    if (left <= all / 2) return;
    left -= bytes;
    taken.push_back(TakenNoisy(fd));
    taken.back().suspected = true;
  }
}

// Adds up what was read, less the messages among it. A message counts for its address even if its
// connection was closed in the meantime.
void ConnectionTable::Listen(const MessageBytes::ByPeer& messages, const NoiseLimits& limits) {
  std::vector<int> closed;
  absl::flat_hash_map<std::string, uint64_t> explained;  // by address
  for (auto& [fd, entry] : entries_) {
    const auto found = messages.find(entry.peer);
    const uint64_t bytes = found == messages.end() ? 0 : found->second;
    explained[entry.address] += bytes;
    const bool open = SocketOf(fd) == entry.socket;
    if (!open) closed.push_back(fd);
    const std::optional<Traffic> known = open ? TrafficOf(fd) : std::nullopt;
    const auto [read, sent] = known.value_or(Traffic());
    entry.is_unix = open && !known;
    const bool little = entry.is_unix || (read > entry.heard && read - entry.heard < limits.slow);
    const bool slow = bytes == 0 && little && UnreadOf(fd) > 0;
    entry.slow_looks = slow ? entry.slow_looks + 1 : 0;
    if (bytes > 0 || sent >= entry.sent + kAnswer) {
      entry.unanswered = 0;
      entry.sent = sent;
    } else if (read > entry.heard) {
      entry.unanswered += read - entry.heard;
    }
    if (read > entry.heard) {
      entry.noise += read - entry.heard;
      noise_[entry.address] += read - entry.heard;
      entry.heard = read;
    }
    entry.noise -= std::min(entry.noise, bytes + limits.forgiven / kConnections);
  }
  for (const int fd : closed) Remove(fd);
  for (auto& [address, noise] : noise_)
    noise -= std::min(noise, explained[address] + limits.forgiven);
  absl::erase_if(noise_, [](const auto& entry) { return entry.second == 0; });
}

// Takes what the connection has sent off its address's noise. None is taken that has sent less than
// `least`: it is a bystander.
std::optional<ConnectionTable::Connection> ConnectionTable::TakeLoudest(const std::string& address,
                                                                        uint64_t least) {
  const auto open = by_address_.find(address);
  if (open == by_address_.end()) return std::nullopt;
  const auto loudest = std::ranges::max_element(open->second, {}, [&](const auto& connection) {
    return entries_.at(connection.second).noise;
  });
  const int fd = loudest->second;
  const uint64_t sent = entries_.at(fd).noise;
  if (sent == 0 || sent < least) return std::nullopt;
  return TakenNoisy(fd);
}

ConnectionTable::Connection ConnectionTable::TakenNoisy(int fd) {
  const Entry& entry = entries_.at(fd);
  uint64_t& of_address = noise_[entry.address];
  of_address -= std::min(of_address, entry.noise);
  return Taken(fd);
}

std::optional<ConnectionTable::Connection> ConnectionTable::TakeNewestOfBusiest(
    const std::string& newcomer) {
  while (!by_address_.empty()) {
    const auto busiest = std::max_element(
        by_address_.begin(), by_address_.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const std::string address = busiest->first;
    const int known = static_cast<int>(busiest->second.size());
    if (Count(address) < known) continue;  // some were closed without notice: look again
    if (known <= Count(newcomer) + 1) return std::nullopt;
    const int newest = busiest->second.rbegin()->second;
    return Taken(newest);
  }
  return std::nullopt;
}

ConnectionTable::Connection ConnectionTable::Taken(int fd) {
  const Entry& entry = entries_.at(fd);
  Connection taken{.fd = fd, .socket = entry.socket, .address = entry.address, .peer = entry.peer};
  Remove(fd);
  return taken;
}

void ConnectionTable::Remove(int fd) {
  const auto entry = entries_.find(fd);
  if (entry == entries_.end()) return;
  const auto open = by_address_.find(entry->second.address);
  open->second.erase(entry->second.order);
  if (open->second.empty()) by_address_.erase(open);
  entries_.erase(entry);
}

}  // namespace remesh::service
