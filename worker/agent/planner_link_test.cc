// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/planner_link.h"

#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/testing/port_holder.h"

namespace remesh::worker {
namespace {

// Answers the first message of each Attach with a Welcome. Then it listens, or ends the stream, as
// a planner does that stops while its connections still exist.
class WelcomingPlanner final : public v1::WorkerService::Service {
 public:
  enum class Then { kListens, kStops };
  explicit WelcomingPlanner(Then then) : then_(then) {}

 private:
  grpc::Status Attach(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::AttachResponse, v1::AttachRequest>* stream) override {
    v1::AttachRequest request;
    stream->Read(&request);
    v1::AttachResponse welcome;
    welcome.mutable_welcome();
    stream->Write(welcome);
    if (then_ == Then::kStops) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "it stops");
    while (stream->Read(&request)) continue;
    return grpc::Status::OK;
  }

  const Then then_;
};

std::unique_ptr<grpc::Server> Serve(grpc::Service& service, int& port) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service);
  return builder.BuildAndStart();
}

// Pauses are ten minutes, so the link attaches only because the pause ends early.
TEST(PlannerLinkTest, APauseEndsWhenThePlannerIsBack) {
  WelcomingPlanner planner(WelcomingPlanner::Then::kListens);
  int port = 0;
  std::unique_ptr<grpc::Server> server = Serve(planner, port);
  const service::PortHolder held(port);
  server->Shutdown();  // no one listens there any more
  PlannerChannel channel({.address = absl::StrCat("127.0.0.1:", port)});
  absl::Notification failed, welcomed;
  PlannerLink* begins = nullptr;
  PlannerLink link(&channel,
                   {.retry_min = std::chrono::minutes(10), .retry_max = std::chrono::minutes(10)},
                   {.connected = [&] { begins->Begin(v1::AttachRequest()); },
                    .received = [&](const v1::AttachResponse&) { welcomed.Notify(); },
                    .disconnected =
                        [&](const grpc::Status&) {
                          if (!failed.HasBeenNotified()) failed.Notify();
                          return false;
                        }});
  begins = &link;
  link.Start();
  failed.WaitForNotification();
  server = Serve(planner, port);
  welcomed.WaitForNotification();
  link.Stop();
  server->Shutdown();
}

// The channel learns later than the stream that the planner is away.
TEST(PlannerLinkTest, APauseEndsThoughTheConnectionOutlivedTheStream) {
  WelcomingPlanner planner(WelcomingPlanner::Then::kStops);
  int port = 0;
  std::unique_ptr<grpc::Server> server = Serve(planner, port);
  const service::PortHolder held(port);
  PlannerChannel channel({.address = absl::StrCat("127.0.0.1:", port)});
  absl::Notification ended, ended_again;
  PlannerLink* begins = nullptr;
  PlannerLink link(&channel,
                   {.retry_min = std::chrono::minutes(10), .retry_max = std::chrono::minutes(10)},
                   {.connected = [&] { begins->Begin(v1::AttachRequest()); },
                    .received = [](const v1::AttachResponse&) {},
                    .disconnected =
                        [&](const grpc::Status&) {
                          (ended.HasBeenNotified() ? ended_again : ended).Notify();
                          return false;
                        }});
  begins = &link;
  link.Start();
  ended.WaitForNotification();
  absl::SleepFor(absl::Milliseconds(300));  // mostly the pause has begun then; either way it ends
  server->Shutdown(std::chrono::system_clock::now());
  while (channel.Get()->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  server = Serve(planner, port);
  ended_again.WaitForNotification();
  link.Stop();
  server->Shutdown();
}

}  // namespace
}  // namespace remesh::worker
