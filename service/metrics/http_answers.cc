// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/http_answers.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "service/front/connection_table.h"

namespace remesh::service {
namespace {

constexpr uint64_t kWake = 0;           // not used as a connection's number
constexpr size_t kArrivedMax = 32;      // connections not yet looked at
constexpr size_t kDiscarded = 8 << 10;  // bytes to discard at once after a head

const char* ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Service Unavailable";
  }
}

struct HttpRequest {
  std::string_view method;
  std::string_view path;  // "": not a request
};

// The path of a target such as "/metrics?a=b" or "http://host/metrics".
std::string_view PathOf(std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  if (target.starts_with(kScheme)) {
    target.remove_prefix(kScheme.size());
    target.remove_prefix(std::min(target.find('/'), target.size()));
  }
  return target.substr(0, target.find('?'));
}

// Only the first line matters.
HttpRequest ParseHttp(std::string_view head) {
  head.remove_prefix(std::min(head.find_first_not_of("\r\n"), head.size()));
  const std::string_view line = head.substr(0, head.find_first_of("\r\n"));
  const size_t target = line.find(' ');
  const size_t version = line.rfind(' ');
  if (target == version || !line.substr(version + 1).starts_with("HTTP/1.")) return {};
  return {.method = line.substr(0, target),
          .path = PathOf(line.substr(target + 1, version - target - 1))};
}

std::string HeadOf(const HttpAnswer& answer) {
  return absl::StrCat(
      "HTTP/1.1 ", answer.code, " ", ReasonOf(answer.code),
      "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ", answer.body.size(), "\r\n",
      answer.code == 405 ? "Allow: GET, HEAD\r\n" : "", "Connection: close\r\n\r\n");
}

std::shared_ptr<const HttpAnswer> Refusal(int code, std::string body) {
  return std::make_shared<const HttpAnswer>(HttpAnswer{.code = code, .body = std::move(body)});
}

iovec PartFrom(const std::string& text, size_t at) {
  at = std::min(at, text.size());
  return {.iov_base = const_cast<char*>(text.data() + at), .iov_len = text.size() - at};
}

}  // namespace

bool HasHttpHead(std::string_view said) {
  // A bare LF may end a line (RFC 9112, 2.2).
  return said.find("\n\r\n") != said.npos || said.find("\n\n") != said.npos;
}

HttpAnswers::HttpAnswers(HttpPaths paths, Options options)
    : options_(options),
      paths_(std::move(paths)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      events_(epoll_create1(EPOLL_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWake;
  REMESH_CHECK(wake_ && events_ &&
               epoll_ctl(events_.get(), EPOLL_CTL_ADD, wake_.get(), &event) == 0);
  for (const auto& [name, path] : paths_) {
    if (!path.waits) continue;
    Maker& maker = makers_[name];
    maker.thread = std::thread([this, &path, &maker] { MakeAnswers(path, maker); });
  }
  thread_ = std::thread([this] { Run(); });
}

HttpAnswers::~HttpAnswers() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
  for (auto& [name, maker] : makers_) maker.thread.join();
}

void HttpAnswers::Take(Fd connection) {
  const auto has_room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || arrived_.size() < kArrivedMax;
  };
  {
    absl::MutexLock lock(&mutex_, absl::Condition(&has_room));
    arrived_.push_back(std::move(connection));
  }
  eventfd_write(wake_.get(), 1);
}

void HttpAnswers::MakeAnswers(const HttpPath& path, Maker& maker) {
  const auto has_work = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !maker.waiting.empty();
  };
  for (;;) {
    Made made;
    {
      absl::MutexLock lock(&mutex_, absl::Condition(&has_work));
      if (stopping_) return;
      made.waited.swap(maker.waiting);
    }
    made.answer = std::make_shared<const HttpAnswer>(path.make());
    {
      absl::MutexLock lock(&mutex_);
      made_.push_back(std::move(made));
    }
    eventfd_write(wake_.get(), 1);
  }
}

void HttpAnswers::Run() {
  const auto is_stopping = [this] {
    absl::MutexLock lock(&mutex_);
    return stopping_;
  };
  while (!is_stopping()) {
    epoll_event events[64];
    const int count = epoll_wait(events_.get(), events, std::size(events), MillisToWait());
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == kWake) {
        OnWake();
      } else {
        OnEvent(events[i].data.u64);
      }
    }
    EndOverdue();
  }
}

void HttpAnswers::OnWake() {
  eventfd_t ignored;
  eventfd_read(wake_.get(), &ignored);
  std::vector<Fd> arrived;
  std::vector<Made> made;
  {
    absl::MutexLock lock(&mutex_);
    arrived.swap(arrived_);
    made.swap(made_);
  }
  for (const Made& one : made) {
    for (const uint64_t number : one.waited) {
      const auto connection = connections_.find(number);
      if (connection != connections_.end()) Reply(connection, one.answer);
    }
  }
  for (Fd& fd : arrived) Begin(std::move(fd));
}

void HttpAnswers::OnEvent(uint64_t number) {
  const auto connection = connections_.find(number);
  if (connection == connections_.end()) return;  // it ended in this round of events
  if (connection->second.answer == nullptr) {
    connections_.erase(connection);  // the client has closed: no other event was asked for
  } else if (!connection->second.is_sent) {
    Send(connection);
  } else if (!Discard(connection->second)) {
    connections_.erase(connection);
  }
}

void HttpAnswers::Begin(Fd fd) {
  char head[kHttpHeadMax];
  const ssize_t count = recv(fd.get(), head, sizeof(head), MSG_DONTWAIT);
  if (count <= 0) return;  // gone
  const HttpRequest request = ParseHttp({head, static_cast<size_t>(count)});
  std::string address = AddressOf(fd.get());
  MakeRoom(address);
  const auto connection =
      connections_
          .try_emplace(next_number_++,
                       Connection{.fd = std::move(fd),
                                  .address = std::move(address),
                                  .deadline = std::chrono::steady_clock::now() + options_.time_max,
                                  .with_body = request.method != "HEAD"})
          .first;
  epoll_event event{};
  event.data.u64 = connection->first;
  if (epoll_ctl(events_.get(), EPOLL_CTL_ADD, connection->second.fd.get(), &event) != 0) {
    connections_.erase(connection);  // no memory, or fs.epoll.max_user_watches
    return;
  }
  if (request.path.empty()) return Reply(connection, Refusal(400, "no request of HTTP/1.1\n"));
  if (request.method != "GET" && request.method != "HEAD")
    return Reply(connection, Refusal(405, "GET only\n"));
  Ask(connection, request.path);
}

void HttpAnswers::Ask(Connections::iterator connection, std::string_view path) {
  const auto found = paths_.find(path);
  if (found == paths_.end()) {
    const auto name = [](std::string* to, const auto& one) { to->append(one.first); };
    return Reply(
        connection,
        Refusal(404, absl::StrCat("served here: ", absl::StrJoin(paths_, ", ", name), "\n")));
  }
  if (!found->second.waits)
    return Reply(connection, std::make_shared<const HttpAnswer>(found->second.make()));
  absl::MutexLock lock(&mutex_);
  std::vector<uint64_t>& waiting = makers_.find(path)->second.waiting;
  // An answer may take very long, so forget connections that have gone.
  std::erase_if(waiting, [this](uint64_t number) { return !connections_.contains(number); });
  waiting.push_back(connection->first);
}

void HttpAnswers::MakeRoom(const std::string& address) {
  std::map<std::string_view, int> counts;
  for (const auto& [number, one] : connections_) ++counts[one.address];
  if (counts[address] >= options_.per_address_max) return Abort(Oldest(address));
  if (static_cast<int>(connections_.size()) < options_.connections_max) return;
  ++counts[address];  // counting the new connection
  const auto busiest = std::ranges::max_element(
      counts, {}, [&](const auto& one) { return std::pair(one.second, one.first == address); });
  // The busiest address loses a connection: clients that ask rarely must get in, however many
  // addresses connect.
  Abort(Oldest(busiest->first));
}

HttpAnswers::Connections::iterator HttpAnswers::Oldest(std::string_view address) {
  auto oldest = connections_.end();
  for (auto at = connections_.begin(); at != connections_.end(); ++at) {
    if (at->second.address != address) continue;
    if (at->second.answer != nullptr) return at;  // only its client keeps it open
    if (oldest == connections_.end()) oldest = at;
  }
  return oldest;
}

void HttpAnswers::Reply(Connections::iterator connection,
                        std::shared_ptr<const HttpAnswer> answer) {
  connection->second.head = HeadOf(*answer);
  connection->second.answer = std::move(answer);
  Send(connection);
}

void HttpAnswers::Send(Connections::iterator connection) {
  static const std::string kNothing;
  Connection& to = connection->second;
  const std::string& body = to.with_body ? to.answer->body : kNothing;
  while (to.sent < to.head.size() + body.size()) {
    iovec parts[] = {PartFrom(to.head, to.sent),
                     PartFrom(body, to.sent - std::min(to.sent, to.head.size()))};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = std::size(parts);
    const ssize_t count = sendmsg(to.fd.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) return Watch(connection, EPOLLOUT);
    if (count < 0) return Abort(connection);
    to.sent += static_cast<size_t>(count);
  }
  // Closing a socket with unread data could destroy the answer on its way to the client.
  shutdown(to.fd.get(), SHUT_WR);
  to.is_sent = true;
  Watch(connection, EPOLLIN);
}

bool HttpAnswers::Discard(const Connection& connection) {
  char ignored[kDiscarded];
  const ssize_t count = recv(connection.fd.get(), ignored, sizeof(ignored), MSG_DONTWAIT);
  return count > 0 || (count < 0 && errno == EAGAIN);
}

void HttpAnswers::Watch(Connections::iterator connection, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = connection->first;
  REMESH_CHECK(epoll_ctl(events_.get(), EPOLL_CTL_MOD, connection->second.fd.get(), &event) == 0);
}

void HttpAnswers::Abort(Connections::iterator connection) {
  // Otherwise the kernel would go on sending buffered data.
  const linger none{.l_onoff = 1, .l_linger = 0};
  setsockopt(connection->second.fd.get(), SOL_SOCKET, SO_LINGER, &none, sizeof(none));
  connections_.erase(connection);
}

void HttpAnswers::EndOverdue() {
  const auto now = std::chrono::steady_clock::now();
  while (!connections_.empty() && connections_.begin()->second.deadline <= now)
    Abort(connections_.begin());
}

int HttpAnswers::MillisToWait() const {
  if (connections_.empty()) return -1;
  const auto left = connections_.begin()->second.deadline - std::chrono::steady_clock::now();
  return std::max(0, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

}  // namespace remesh::service
