// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/ucx_worker.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

bool IsAtMost113() {
  unsigned major, minor, release;
  ucp_get_version(&major, &minor, &release);
  return major == 1 && minor <= 13;
}

std::string NetDevices(const UcxOptions& options, const SocketAddress& bind) {
  if (!options.net_devices.empty()) return options.net_devices;
  const std::string name = options.tls == "tcp" ? InterfaceOf(bind) : "";
  return name.empty() ? "all" : name;
}

absl::StatusOr<ucp_context_h> CreateContext(const UcxOptions& options, const SocketAddress& bind) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return UcxError("reading UCX's configuration", status);
  std::vector<std::pair<const char*, std::string>> settings = {
      {"TLS", options.tls}, {"NET_DEVICES", NetDevices(options, bind)}};
  // TCP's emulation of remote writes is far slower than active messages, but UCX would choose it.
  if (IsAtMost113()) {
    settings.push_back(
        {"PUT_ENABLE", "n"});  // without the transport's name, which the variable has
    settings.push_back({"PROTO_ENABLE", "n"});  // unfinished there: aborts the process
  } else {
    settings.push_back({"TCP_PUT_ENABLE", "n"});
  }
  for (const auto& [name, value] : settings) {
    status = ucp_config_modify(config, name, value.c_str());
    if (status != UCS_OK) {
      ucp_config_release(config);
      return UcxError(absl::StrCat("setting UCX_", name, "=", value), status);
    }
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "remesh";
  ucp_context_h context = nullptr;
  status = ucp_init(&params, config, &context);
  ucp_config_release(config);
  if (status != UCS_OK) return UcxError("starting UCX", status);
  return context;
}

}  // namespace

absl::Status UcxError(std::string_view what, ucs_status_t status) {
  const std::string text(what), cause = ucs_status_string(status);
  return MakeError(absl::StatusCode::kUnavailable, absl::StrCat(text, ": ", cause),
                   {"UCX_ERROR", {{"operation", text}, {"cause", cause}}});
}

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Create(const UcxOptions& options,
                                                             const SocketAddress& bind) {
  std::unique_ptr<UcxWorker> self(new UcxWorker);
  ASSIGN_OR_RETURN(self->context_, CreateContext(options, bind));
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucs_status_t status = ucp_worker_create(self->context_, &params, &self->worker_);
  if (status != UCS_OK) return UcxError("creating a UCX worker", status);
  status = ucp_worker_get_efd(self->worker_, &self->event_fd_);
  if (status != UCS_OK) return UcxError("getting the UCX worker's events", status);
  self->wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (self->wake_fd_ < 0) return absl::UnavailableError("no file descriptor is left");
  return self;
}

UcxWorker::~UcxWorker() {
  if (wake_fd_ >= 0) close(wake_fd_);
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

void UcxWorker::Wait(std::chrono::milliseconds timeout) {
  // BUSY: events are there already, and the descriptor would not signal them.
  const bool busy = ucp_worker_arm(worker_) != UCS_OK;
  pollfd fds[] = {{event_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
  poll(fds, 2, busy ? 0 : static_cast<int>(timeout.count()));
  uint64_t count;
  if ((fds[1].revents & POLLIN) != 0) (void)!read(wake_fd_, &count, sizeof(count));
}

void UcxWorker::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));  // fails only when a wake-up is pending 2^64 times
}

}  // namespace remesh::worker
