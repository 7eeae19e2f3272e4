// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/tcp_transport.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "service/front/connection_table.h"
#include "service/log/log.h"
#include "worker/transport/peer_table.h"
#include "worker/transport/tcp_transport_impl.h"

namespace remesh::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kAcceptsPerTurn = 64;
constexpr int kEventsPerTurn = 64;
constexpr size_t kLeftMax = 4096;
constexpr milliseconds kRedialAfter(10);  // at first
constexpr int kDoublingsMax = 4;
// A peer with too many unproved connections drops some before it answers.
constexpr int kBrokenMax = 20;
constexpr milliseconds kListenerPause(100);

absl::Status CannotListen(const SocketAddress& address, const char* what) {
  const std::string error = std::strerror(errno), where = FormatSocketAddress(address);
  return MakeError(
      absl::StatusCode::kUnavailable,
      absl::StrCat("data_bind_address: ", what, " on ", where, ": ", error),
      {"CANNOT_LISTEN", {{"field", "data_bind_address"}, {"address", where}, {"error", error}}});
}

void Set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

// Lets the kernel notice within 15 s that a host is gone without a word.
void Tune(int fd) {
  Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  Set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  Set(fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
  Set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 15000);
}

// Whether descriptors or memory are short, which may pass.
bool IsShortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

bool IsWildcard(const SocketAddress& address) {
  const std::string text = FormatSocketAddress(address);
  const std::string host = text.substr(0, text.rfind(':'));
  return host == "0.0.0.0" || host == "[::]" || host == "[::ffff:0.0.0.0]";
}

}  // namespace

TcpTransport::TcpTransport(TcpOptions options, SocketAddress bind_address)
    : options_(std::move(options)), bind_address_(bind_address) {}

TcpTransport::~TcpTransport() { REMESH_CHECK(groups_.empty()); }

absl::Status TcpTransport::Listen() {
  epoll_.Reset(epoll_create1(EPOLL_CLOEXEC));
  wake_.Reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  const int family = bind_address_.get()->sa_family;
  listener_.Reset(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!epoll_ || !wake_ || !listener_) return CannotListen(bind_address_, "making sockets");
  Set(listener_.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(listener_.get(), bind_address_.get(), bind_address_.length) != 0)
    return CannotListen(bind_address_, "binding");
  if (listen(listener_.get(), 1024) != 0) return CannotListen(bind_address_, "listening");
  descriptors_max_ = service::RaiseDescriptorLimit();
  SocketAddress own;
  own.length = sizeof(own.storage);
  REMESH_CHECK(
      getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.length) == 0);
  address_ = FormatSocketAddress(own);
  for (Fd* fd : {&listener_, &wake_}) {
    epoll_event event{.events = EPOLLIN, .data = {.ptr = fd}};
    REMESH_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd->get(), &event) == 0);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PeerGroup>> TcpTransport::Open(int self, std::vector<Peer> peers) {
  RETURN_IF_ERROR(ValidatePeerTable(self, peers));
  ASSIGN_OR_RETURN(std::vector<SocketAddress> addresses, AddressesOf(peers));
  for (size_t i = 0; i < peers.size(); ++i) {
    if (!IsWildcard(addresses[i])) continue;
    return InvalidField(absl::StrCat("peers[", i, "].address"), peers[i].address,
                        "must be the address of one host");
  }
  auto group = std::make_unique<TcpGroup>(this, self, std::move(peers), std::move(addresses));
  REMESH_CHECK(groups_.try_emplace(tcp::IdOf(group->token()), group.get()).second);
  return group;
}

TcpGroup* TcpTransport::FindGroup(const tcp::TokenId& id, tcp::Code& code) {
  const auto found = groups_.find(id);
  if (found != groups_.end()) return found->second;
  const bool left = std::find(left_.begin(), left_.end(), id) != left_.end();
  code = left ? tcp::Code::kLeft : tcp::Code::kNotHere;
  return nullptr;
}

void TcpTransport::OnAborted(TcpGroup* group) {
  const tcp::TokenId id = tcp::IdOf(group->token());
  groups_.erase(id);
  left_.push_back(id);
  if (left_.size() > kLeftMax) left_.pop_front();
  std::erase_if(redials_, [group](const Redial& redial) { return redial.group == group; });
  std::vector<TcpConnection*> dialling;
  for (TcpConnection* connection : unproved_) {
    if (connection->group() == group) dialling.push_back(connection);
  }
  for (TcpConnection* connection : dialling) Close(connection);
}

TcpConnection* TcpTransport::Add(std::unique_ptr<TcpConnection> connection) {
  TcpConnection* const added = connection.get();
  open_[added] = {std::move(connection), 0};
  unproved_.push_back(added);
  Watch(added);
  return added;
}

void TcpTransport::Watch(TcpConnection* connection) {
  const auto found = open_.find(connection);
  if (found == open_.end()) return;
  const bool output = connection->connecting() || connection->stream().has_output();
  const uint32_t wanted = EPOLLIN | (output ? uint32_t{EPOLLOUT} : 0);
  uint32_t& watched = found->second.second;
  if (wanted == watched) return;
  epoll_event event{.events = wanted, .data = {.ptr = connection}};
  REMESH_CHECK(epoll_ctl(epoll_.get(), watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD,
                         connection->stream().fd(), &event) == 0);
  watched = wanted;
}

void TcpTransport::Close(TcpConnection* connection) {
  auto found = open_.extract(connection);
  if (found.empty()) return;
  connection->stream().Close();  // and epoll forgets it
  std::erase(unproved_, connection);
  std::erase(output_, connection);
  closed_.push_back(std::move(found.mapped().first));
}

void TcpTransport::Dial(TcpGroup* group, int peer, TcpConnection::Tries tries) {
  const SocketAddress& address = group->address(peer);
  const TimePoint now = steady_clock::now();
  if (tries.since == TimePoint()) tries.since = now;
  Fd fd(socket(address.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd && fd.get() >= descriptors_max_) {
    fd.Reset();
    errno = EMFILE;
  }
  if (!fd) {
    const int error = errno;
    service::LogWarning("cannot dial a peer",
                        {{"peer", group->peer(peer).address}, {"error", std::strerror(error)}});
    if (!IsShortage(error) || now - tries.since >= options_.dial_timeout)
      return group->OnLost(peer, std::strerror(error));
    redials_.push_back({now + kListenerPause, group, peer, tries});
    return;
  }
  Tune(fd.get());
  if (address.get()->sa_family == bind_address_.get()->sa_family) {
    SocketAddress from = bind_address_;  // so that the data take the data NIC
    reinterpret_cast<sockaddr_in*>(&from.storage)->sin_port = 0;  // in6 has it at the same place
    Set(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    bind(fd.get(), from.get(), from.length);
  }
  const bool failed = connect(fd.get(), address.get(), address.length) != 0 && errno != EINPROGRESS;
  const std::string why = failed ? std::strerror(errno) : "";
  TcpConnection* const connection = Add(std::make_unique<TcpConnection>(
      this, std::move(fd), group, peer, now + options_.dial_timeout, tries));
  if (!failed) return;
  connection->stream().Fail(why);
  OnClosed(connection);
}

bool TcpTransport::Accept() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd && fd.get() >= descriptors_max_) {
      fd.Reset();
      errno = EMFILE;
    }
    if (!fd) {
      if (IsShortage(errno)) PauseListener();
      return i > 0;
    }
    std::string host = service::AddressOf(fd.get());
    MakeRoom(host);
    Tune(fd.get());
    Add(std::make_unique<TcpConnection>(this, std::move(fd), std::move(host),
                                        steady_clock::now() + options_.handshake_timeout));
  }
  return true;
}

// A handshake takes moments, so of the connections that have not finished it, the oldest is the
// least likely to be one of a peer's.
void TcpTransport::MakeRoom(const std::string& host) {
  const auto make_room = [this](int most, const auto& counts) {
    if (std::count_if(unproved_.begin(), unproved_.end(), counts) >= most)
      Close(*std::find_if(unproved_.begin(), unproved_.end(), counts));
  };
  make_room(options_.unproved_per_address_max,
            [&](const TcpConnection* c) { return !c->dialled() && c->host() == host; });
  make_room(options_.unproved_max, [](const TcpConnection* c) { return !c->dialled(); });
}

// Out of descriptors: while the listener is not paused, epoll would report it again and again.
void TcpTransport::PauseListener() {
  service::LogWarning("cannot accept connections of peers", {{"error", std::strerror(errno)}});
  for (TcpConnection* connection : unproved_) {
    if (connection->dialled()) continue;
    Close(connection);
    break;
  }
  epoll_event event{.events = 0, .data = {.ptr = &listener_}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
  listener_paused_until_ = steady_clock::now() + kListenerPause;
}

void TcpTransport::OnOutput(TcpConnection* connection) { output_.push_back(connection); }

bool TcpTransport::Flush() {
  bool any = false;
  std::vector<TcpConnection*> output = std::exchange(output_, {});
  std::sort(output.begin(), output.end());
  output.erase(std::unique(output.begin(), output.end()), output.end());
  for (TcpConnection* connection : output) {
    if (!connection->stream().open() || connection->connecting()) continue;
    any |= connection->stream().Write();
    connection->stream().open() ? Watch(connection) : OnClosed(connection);
  }
  return any;
}

void TcpTransport::Handle(TcpConnection* connection, uint32_t events) {
  tcp::Stream& stream = connection->stream();
  if (!stream.open()) return;
  const bool was_proved = connection->proved();
  if (connection->connecting()) {
    connection->OnConnected();
  } else if ((events & EPOLLOUT) != 0) {
    stream.Write();
  }
  if (stream.open() && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) connection->Read();
  if (!was_proved && connection->proved()) std::erase(unproved_, connection);
  stream.open() ? Watch(connection) : OnClosed(connection);
}

void TcpTransport::OnClosed(TcpConnection* connection) {
  if (!open_.contains(connection)) return;  // its own group has closed it
  const std::string why = connection->stream().why();
  TcpGroup* const group = connection->group();
  const int peer = connection->peer();
  const bool proved = connection->proved(), dialled = connection->dialled();
  const std::optional<tcp::Code> answer = connection->answer();
  const bool late = steady_clock::now() >= connection->deadline();
  const bool connecting = connection->connecting();
  TcpConnection::Tries tries = connection->tries();
  Close(connection);
  if (group == nullptr) return;  // a stranger
  if (proved) return group->OnLost(peer, why);
  if (!dialled) return;
  if (answer == tcp::Code::kLeft) return group->OnLost(peer, "it left the attempt");
  if (answer == tcp::Code::kRefused) return group->OnLost(peer, "it refused the token");
  if (connecting) return group->OnLost(peer, late ? "it does not answer" : why);
  if (late && !answer) return group->OnLost(peer, "it does not finish the handshake");
  ++tries.all;
  tries.broken = answer ? 0 : tries.broken + 1;
  if (tries.broken >= kBrokenMax) return group->OnLost(peer, why);
  // Spreads the hosts' tries, and dials less often the longer it takes.
  const auto pause = kRedialAfter * (1 << std::min(tries.all, answer ? 6 : kDoublingsMax));
  const auto jitter = std::chrono::microseconds(random_() % (1000 * pause.count()));
  redials_.push_back({steady_clock::now() + pause / 2 + jitter, group, peer, tries});
}

// The handshake has run out of time, unless its next step has arrived and is not read yet: this
// process may have stood still.
void TcpTransport::EndHandshake(TcpConnection* connection, TimePoint now) {
  if (!connection->stream().open()) return;  // its own group has closed it
  const int step = connection->step();
  pollfd ready{.fd = connection->stream().fd(),
               .events = static_cast<short>(connection->connecting() ? POLLOUT : POLLIN),
               .revents = 0};
  const bool due = poll(&ready, 1, 0) == 1;
  if (due) Handle(connection, EPOLLIN);
  if (!connection->stream().open() || connection->proved()) return;
  if (connection->step() != step) return connection->Postpone(now + options_.handshake_timeout);
  OnClosed(connection);
}

bool TcpTransport::RunTimers() {
  if (unproved_.empty() && redials_.empty() && listener_paused_until_ == TimePoint()) return false;
  const TimePoint now = steady_clock::now();
  if (listener_paused_until_ != TimePoint() && now >= listener_paused_until_) {
    listener_paused_until_ = {};
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &listener_}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
  }
  std::vector<TcpConnection*> late;
  for (TcpConnection* connection : unproved_) {
    if (now >= connection->deadline()) late.push_back(connection);
  }
  for (TcpConnection* connection : late) EndHandshake(connection, now);
  std::vector<Redial> due;
  std::erase_if(redials_, [&](const Redial& redial) {
    if (redial.when > now) return false;
    due.push_back(redial);
    return true;
  });
  for (const Redial& redial : due) {
    if (redial.group->wants(redial.peer)) Dial(redial.group, redial.peer, redial.tries);
  }
  return !late.empty() || !due.empty();
}

TcpTransport::TimePoint TcpTransport::NextTimer() const {
  TimePoint next = TimePoint::max();
  for (const TcpConnection* connection : unproved_) next = std::min(next, connection->deadline());
  for (const Redial& redial : redials_) next = std::min(next, redial.when);
  if (listener_paused_until_ != TimePoint()) next = std::min(next, listener_paused_until_);
  return next;
}

void TcpTransport::End(TcpGroup* group, PeerGroup::Done done, absl::Status status) {
  ended_.push_back({group, std::move(done), std::move(status)});
}

bool TcpTransport::RunEnded() {
  if (ended_.empty()) return false;
  for (Ended& operation : std::exchange(ended_, {})) {
    operation.group->OnCallback();
    operation.done(std::move(operation.status));  // may destroy the group
  }
  return true;
}

bool TcpTransport::Progress() {
  closed_.clear();
  bool any = RunTimers();
  any |= Flush();
  std::array<epoll_event, kEventsPerTurn> events;
  const int count = epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.ptr == &wake_) continue;  // it is for Wait()
    if (events[i].data.ptr == &listener_) {
      any |= Accept();
    } else {
      Handle(static_cast<TcpConnection*>(events[i].data.ptr), events[i].events);
      any = true;
    }
  }
  any |= Flush();
  any |= RunEnded();
  return any;
}

void TcpTransport::Wait(std::chrono::milliseconds timeout) {
  if (!ended_.empty() || !output_.empty()) return;
  const auto until = NextTimer() - steady_clock::now();
  const auto bound = std::chrono::ceil<milliseconds>(std::max(until, steady_clock::duration(0)));
  epoll_event event;
  epoll_wait(epoll_.get(), &event, 1, static_cast<int>(std::min(timeout, bound).count()));
  eventfd_t ignored;
  eventfd_read(wake_.get(), &ignored);
}

void TcpTransport::Wake() { eventfd_write(wake_.get(), 1); }

absl::StatusOr<std::unique_ptr<Transport>> NewTcpTransport(const TcpOptions& options) {
  ASSIGN_OR_RETURN(const SocketAddress address,
                   MakeSocketAddress(options.bind_address, options.port));
  if (IsWildcard(address)) {
    return InvalidField("bind_address", options.bind_address,
                        "must be an address that peers can dial");
  }
  auto transport = std::make_unique<TcpTransport>(options, address);
  RETURN_IF_ERROR(transport->Listen());
  return transport;
}

}  // namespace remesh::worker
