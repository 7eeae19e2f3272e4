// SPDX-License-Identifier: Apache-2.0
#include "service/front/accept_loop.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "service/log/log.h"
#include "service/process/heap.h"

namespace remesh::service {
namespace {

constexpr int kAcceptedAtOnce = 64;  // then other events have their turn
constexpr int kPauseMillis = 100;    // when no descriptor at all is left
// How often to look whether a connection that was ended has been closed.
constexpr int kLooksForRoom = 100;
constexpr int kPauseForRoomMillis = 2;
constexpr int kFloodMillis = 5;  // between connections that end for a flood
// Of all that is read in a flood, from the connection that floods. Several may do so together, but
// hundreds that call at once, as processes of one world do, have less each.
constexpr double kFloodShare = 1.0 / 16;
// How long an address is barred after one of its connections was ended; well-behaved clients try
// again. Noise takes seconds to be found out, so it must not go on at once.
constexpr auto kBarredFor = std::chrono::seconds(5);
constexpr auto kBarredForNoise = std::chrono::seconds(60);
constexpr int kEndAllMillis = 100;
constexpr int kListenMillis = 1000;
constexpr char kTooManyCalls[] = "it begins calls faster than they can end";

bool IsListener(const std::vector<Fd>& listeners, int fd) {
  return std::any_of(listeners.begin(), listeners.end(),
                     [fd](const Fd& listener) { return listener.get() == fd; });
}

bool IsOpening(const AcceptLoop::Options& options, std::string_view said) {
  return options.is_opening ? options.is_opening(said) : said.size() == options.opening_bytes;
}

// A descriptor of the connection below the ceiling, or none.
Fd Lowered(const Fd& connection, int ceiling) {
  Fd lower(fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
  return lower.get() < ceiling ? std::move(lower) : Fd();
}

}  // namespace

AcceptLoop::AcceptLoop(std::vector<Fd> listeners, Options options, Handler handler)
    : listeners_(std::move(listeners)),
      options_(std::move(options)),
      handler_(std::move(handler)),
      ceiling_(RaiseDescriptorLimit(options_.reserved_descriptors)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      table_(options_.per_address_max) {
  REMESH_CHECK(stop_ && events_ && options_.opening_bytes <= kOpeningMax);
  Watch(stop_.get());
  for (const Fd& listener : listeners_) Watch(listener.get());
  if (options_.unfinished != nullptr) Watch(options_.unfinished->event());
  thread_ = std::thread([this] { Run(); });
}

void AcceptLoop::Retire(std::chrono::nanoseconds grace) {
  retire_nanos_ = grace.count();
  eventfd_write(stop_.get(), 1);
}

AcceptLoop::~AcceptLoop() {
  retire_nanos_ = -1;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void AcceptLoop::Watch(int fd, uint32_t how) {
  epoll_event event{};
  event.events = EPOLLIN | how;
  event.data.fd = fd;
  REMESH_CHECK(epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
}

void AcceptLoop::Run() {
  while (true) {
    epoll_event events[64];
    const int count = epoll_wait(events_.get(), events, std::size(events), MillisToWait());
    for (int i = 0; i < count; ++i) {
      if (!OnEvent(events[i].data.fd)) return;
    }
    if (options_.unfinished != nullptr) EndExcessive();
    if (options_.messages != nullptr) EndNoisy();
    CloseOverdue();
    if (std::chrono::steady_clock::now() >= ends_all_at_) EndAll();
  }
}

void AcceptLoop::StopAccepting() {
  for (const Fd& listener : listeners_)
    epoll_ctl(events_.get(), EPOLL_CTL_DEL, listener.get(), nullptr);
  listeners_.clear();
  while (!silent_.empty()) Remove(silent_.begin());
}

void AcceptLoop::EndAll() {
  while (const auto connection = table_.TakeAny()) End(*connection, "the process stops", {});
}

bool AcceptLoop::OnEvent(int fd) {
  if (fd == stop_.get()) {
    eventfd_t count;
    eventfd_read(fd, &count);
    const std::chrono::nanoseconds grace(retire_nanos_);
    if (grace.count() < 0) return false;
    StopAccepting();
    ends_all_at_ = std::chrono::steady_clock::now() +
                   std::chrono::duration_cast<std::chrono::steady_clock::duration>(grace);
  } else if (IsListener(listeners_, fd)) {
    Accept(fd);
  } else if (const auto silent = by_fd_.find(fd); silent != by_fd_.end()) {
    OnWord(silent->second);
  }
  return true;
}

bool AcceptLoop::OnWord(SilentList::iterator silent) {
  const int fd = silent->connection.get();
  char opening[kOpeningMax];
  const ssize_t count = recv(fd, opening, options_.opening_bytes, MSG_PEEK | MSG_DONTWAIT);
  if (count < 0 && errno == EAGAIN) return false;
  const size_t said = static_cast<size_t>(std::max<ssize_t>(count, 0));
  const bool opens = IsOpening(options_, {opening, said});
  if (said > 0 && said < options_.opening_bytes && !opens) return false;
  Fd connection = Remove(silent);
  if (!opens) return true;  // closed without a word, or too many bytes without an opening
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, fd, nullptr);
  handler_(connection.Release());
  return true;
}

void AcceptLoop::Accept(int listener) {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    if (!AcceptOne(listener)) return;
  }
}

bool AcceptLoop::AcceptOne(int listener) {
  Fd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (connection) {
    TakeIn(std::move(connection));
    return true;
  }
  const int error = errno;
  if (error == EAGAIN || error == EWOULDBLOCK) return false;
  if (error == EINTR || error == ECONNABORTED) return true;
  if (CloseLongestSilent()) return true;
  LogWarning("connections cannot be accepted", {{"cause", std::strerror(error)}});
  pollfd stop{stop_.get(), POLLIN, 0};
  poll(&stop, 1, kPauseMillis);
  return false;
}

void AcceptLoop::TakeIn(Fd connection) {
  if (connection.get() >= ceiling_) connection = MakeRoom(std::move(connection));
  if (!connection) return;
  std::string address = AddressOf(connection.get());
  if (bars_.IsBarred(address, std::chrono::steady_clock::now())) {
    LogWarning("connection refused: its address is barred for a while", {{"address", address}});
    return;
  }
  if (!Admit(connection.get(), address)) {
    LogWarning("connection refused: its address has too many",
               {{"address", address}, {"limit", options_.per_address_max}});
    return;
  }
  if (silent_.size() >= options_.silent_max) CloseLongestSilent();
  const int fd = connection.get();
  Watch(fd, EPOLLET);  // edge-triggered: half an opening wakes us only once
  silent_.push_back({.connection = std::move(connection),
                     .deadline = std::chrono::steady_clock::now() + options_.silence_max,
                     .address = std::move(address)});
  by_fd_[fd] = std::prev(silent_.end());
}

bool AcceptLoop::Admit(int connection, const std::string& address) {
  if (options_.forgets_taken) {  // counts only silent ones; the table must look at descriptors
    const auto silent = std::ranges::count(silent_, address, &Silent::address);
    if (silent >= options_.per_address_max) CloseLongestSilent(&address);
    return true;
  }
  if (table_.Admit(connection, address)) return true;
  CloseLongestSilent(&address);
  return table_.Admit(connection, address);
}

Fd AcceptLoop::MakeRoom(Fd connection) {
  const std::string address = AddressOf(connection.get());
  Fd lower;
  if (CloseLongestSilent()) {
    lower = Lowered(connection, ceiling_);
  } else if (const auto newest = table_.TakeNewestOfBusiest(address)) {
    ShutDown(*newest);
    lower = AwaitRoom(connection);
  }
  if (lower) return lower;
  LogWarning("connection refused: too many files are open",
             {{"address", address}, {"limit", ceiling_}});
  return Fd();
}

Fd AcceptLoop::AwaitRoom(const Fd& connection) {
  pollfd stop{stop_.get(), POLLIN, 0};
  for (int i = 0; i < kLooksForRoom; ++i) {
    if (Fd lower = Lowered(connection, ceiling_)) return lower;
    if (poll(&stop, 1, kPauseForRoomMillis) != 0) break;
  }
  return Fd();
}

Fd AcceptLoop::Remove(SilentList::iterator silent) {
  Fd connection = std::move(silent->connection);
  by_fd_.erase(connection.get());
  silent_.erase(silent);
  return connection;
}

bool AcceptLoop::CloseLongestSilent(const std::string* address) {
  for (;;) {
    const auto oldest = std::find_if(silent_.begin(), silent_.end(), [&](const Silent& silent) {
      return address == nullptr || silent.address == *address;
    });
    if (oldest == silent_.end()) return false;
    if (OnWord(oldest)) continue;  // it has spoken, but its event has not come yet
    Remove(oldest);
    return true;
  }
}

void AcceptLoop::EndExcessive() {
  for (const std::string& peer : options_.unfinished->TakeExcessive()) {
    if (const auto connection = table_.Take(peer)) End(*connection, kTooManyCalls, kBarredFor);
  }
  // The connections of these calls are not known yet, but the calls come from the one that was read
  // most.
  using Flood = UnfinishedCalls::Flood;
  const Flood flood = options_.unfinished->TakeFlood();
  if (flood == Flood::kNone) return;
  if (flood != Flood::kMayBegin) {
    const auto connection = table_.TakeMostRead(flood == Flood::kGoesOn ? kFloodShare : 0);
    if (connection) End(*connection, kTooManyCalls, kBarredFor);
  }
  table_.MarkRead();
}

void AcceptLoop::EndNoisy() {
  const auto now = std::chrono::steady_clock::now();
  const auto noisy = table_.TakeNoisy(*options_.messages, now, OwnMemoryBytes(), options_.noise);
  for (const auto& connection : noisy) {
    const bool again = !connection.suspected && bars_.NoteNoise(connection.address, now);
    End(connection, "it sends too much that belongs to no call",
        again ? kBarredForNoise : std::chrono::seconds(0));
  }
}

Fd AcceptLoop::ShutDown(const ConnectionTable::Connection& connection) {
  // The owner may close its descriptor at any time, and another socket get it.
  Fd same(fcntl(connection.fd, F_DUPFD_CLOEXEC, 0));  // of the reserved ones, if need be
  if (!same || SocketOf(same.get()) != connection.socket) return Fd();
  shutdown(same.get(), SHUT_RDWR);  // its owner learns of this
  if (options_.on_shutdown) options_.on_shutdown(connection.fd);
  return same;
}

void AcceptLoop::End(const ConnectionTable::Connection& connection, const char* why,
                     std::chrono::nanoseconds barred_for) {
  LogWarning(absl::StrCat("connection ended: ", why), {{"peer", connection.peer}});
  bars_.Bar(connection.address, std::chrono::steady_clock::now() + barred_for);
  const Fd same = ShutDown(connection);
  // What has arrived could still be read. This drops it, of a TCP connection.
  const sockaddr none{.sa_family = AF_UNSPEC, .sa_data = {}};
  if (same) connect(same.get(), &none, sizeof(none));
}

void AcceptLoop::CloseOverdue() {
  const auto now = std::chrono::steady_clock::now();
  while (!silent_.empty() && silent_.front().deadline <= now) {
    // It may have spoken while this process stood still.
    if (!OnWord(silent_.begin())) Remove(silent_.begin());
  }
}

int AcceptLoop::MillisToWait() const {
  if (options_.unfinished != nullptr && options_.unfinished->flooded()) return kFloodMillis;
  const bool retires = ends_all_at_ != std::chrono::steady_clock::time_point::max();
  if (retires) return kEndAllMillis;
  const int listens = options_.messages != nullptr && !table_.empty() ? kListenMillis : -1;
  if (silent_.empty()) return listens;
  const auto left = silent_.front().deadline - std::chrono::steady_clock::now();
  const int silence = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
  return std::max(0, listens < 0 ? silence : std::min(silence, listens));
}

}  // namespace remesh::service
