// SPDX-License-Identifier: Apache-2.0
#include "client/watch/state_watch.h"

#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/watch/outage.h"
#include "client/watch/server_stream.h"
#include "remesh/v1/state.grpc.pb.h"

namespace remesh::client {
namespace {

// Whether the watch is worth another try after `why`.
bool IsAway(const absl::Status& why, Outage& outage) {
  return outage.Bears({static_cast<grpc::StatusCode>(why.code()), ""});
}

// Reads one stream to its end. `last`: the message that was handed on last.
absl::Status ReadStream(ServerStream<v1::State>& stream, std::string& last, Outage& outage,
                        absl::FunctionRef<absl::Status(const v1::State&)> on_change) {
  v1::State state;
  bool is_first = true;
  for (bool read = stream.Read(state); read; read = stream.ReadNextChange(state)) {
    outage.End();
    std::string bytes = state.SerializeAsString();
    const bool is_known = std::exchange(is_first, false) && bytes == last;
    last = std::move(bytes);
    if (!is_known) RETURN_IF_ERROR(on_change(state));
  }
  return stream.End();
}

}  // namespace

absl::Status WatchState(const Endpoint& server, const std::string& name,
                        absl::FunctionRef<absl::Status(const v1::State&)> on_change) {
  const std::shared_ptr<grpc::Channel> channel = ConnectServer(server);
  const auto stub = v1::StateService::NewStub(channel);
  v1::WatchStateRequest request;
  request.set_name(name);
  std::string last;
  Outage outage(server);
  bool told = false;
  while (true) {
    ServerStream<v1::State> stream(
        server, [&](grpc::ClientContext* context) { return stub->WatchState(context, request); });
    const std::string before = last;
    const absl::Status end = ReadStream(stream, last, outage, on_change);
    if (last != before) told = false;
    if (end.ok() || last.empty() || !IsAway(end, outage)) return end;
    if (!told) {
      std::cerr << "remeshctl: " << end.message() << "; trying again for " << server.timeout_seconds
                << " s (" << server.timeout_flag << ")\n";
    }
    told = true;
    AwaitConnection(*channel);
  }
}

}  // namespace remesh::client
