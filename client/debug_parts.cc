// SPDX-License-Identifier: Apache-2.0
#include "client/debug_parts.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "proto/text/text.h"
#include "remesh/v1/admin.grpc.pb.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "remesh/v1/reshard.grpc.pb.h"
#include "remesh/v1/state.grpc.pb.h"
#include "remesh/v1/worker.grpc.pb.h"

namespace remesh::client {
namespace {

constexpr size_t kPartBytesMax = size_t{16} << 20;
constexpr int kPageSize = 1000;

DebugPart Cut(DebugPart part) {
  if (!part.content.ok() || part.content->size() <= kPartBytesMax) return part;
  part.note = absl::StrCat("cut off after ", kPartBytesMax, " of ", part.content->size(), " bytes");
  part.content->resize(kPartBytesMax);
  return part;
}

template <typename Message>
DebugPart JsonPart(std::string name, const absl::StatusOr<Message>& message) {
  if (!message.ok()) return {std::move(name), message.status()};
  return Cut({std::move(name), proto::ToJson(*message, /*pretty=*/true)});
}

template <typename Stub, typename Request, typename Response>
using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

// Fetches a list page by page, until it is complete or long enough.
template <typename Stub, typename Request, typename Response>
DebugPart ListPart(std::string name, const Endpoint& server, Stub& stub,
                   Method<Stub, Request, Response> method, Request request) {
  Response all;
  std::string note;
  request.set_page_size(kPageSize);
  do {
    absl::StatusOr<Response> page = Call(server, stub, method, request);
    if (!page.ok()) return {std::move(name), page.status()};
    request.set_page_token(page->next_page_token());
    page->clear_next_page_token();
    all.MergeFrom(*page);
    if (request.page_token().empty()) break;
    if (all.ByteSizeLong() > kPartBytesMax / 4) note = "the first pages only: the list is long";
  } while (note.empty());
  DebugPart part = JsonPart<Response>(std::move(name), std::move(all));
  if (part.note.empty()) part.note = std::move(note);
  return part;
}

// The text of settings.yaml, which can be loaded as a settings file.
std::string SettingsText(const v1::ServerInfo& info) {
  std::string text;
  for (const v1::Setting& setting : info.settings()) {
    absl::StrAppend(&text, setting.key(), ": ", setting.value(), "\n");
  }
  return text;
}

void AddServer(absl::StatusOr<v1::ServerInfo> info, std::vector<DebugPart>& parts) {
  if (!info.ok()) {
    parts.push_back({"server.json", info.status()});
    return;
  }
  parts.push_back({"settings.yaml", SettingsText(*info)});
  parts.push_back({"readyz.txt", info->readiness()});
  parts.push_back(Cut({"metrics.txt", std::move(*info->mutable_metrics())}));
  parts.push_back(Cut({"log.txt", absl::StrCat(absl::StrJoin(info->log_lines(), "\n"), "\n")}));
  for (const auto& clear : {&v1::ServerInfo::clear_settings, &v1::ServerInfo::clear_readiness,
                            &v1::ServerInfo::clear_metrics, &v1::ServerInfo::clear_log_lines}) {
    ((*info).*clear)();
  }
  parts.push_back(JsonPart("server.json", info));
}

bool Unreachable(const absl::Status& status) {
  return GetErrorInfo(status).reason == "UNREACHABLE";
}

}  // namespace

absl::StatusOr<std::vector<DebugPart>> CollectDebugParts(const Endpoint& server) {
  const std::shared_ptr<grpc::Channel> channel = ConnectServer(server);
  const auto admin = v1::AdminService::NewStub(channel);
  absl::StatusOr<v1::ServerInfo> info =
      Call(server, *admin, &v1::AdminService::Stub::GetServer, v1::GetServerRequest());
  if (Unreachable(info.status())) return info.status();
  std::vector<DebugPart> parts;
  AddServer(std::move(info), parts);
  const auto workers = v1::WorkerService::NewStub(channel);
  const auto plans = v1::PlanService::NewStub(channel);
  v1::ListPlansRequest list_plans;
  list_plans.set_view(v1::SUMMARY);
  parts.push_back(ListPart("states.json", server, *v1::StateService::NewStub(channel),
                           &v1::StateService::Stub::ListStates, v1::ListStatesRequest()));
  parts.push_back(ListPart("executions.json", server, *v1::ReshardService::NewStub(channel),
                           &v1::ReshardService::Stub::ListExecutions, v1::ListExecutionsRequest()));
  parts.push_back(ListPart("workers.json", server, *workers, &v1::WorkerService::Stub::ListWorkers,
                           v1::ListWorkersRequest()));
  parts.push_back(
      ListPart("plans.json", server, *plans, &v1::PlanService::Stub::ListPlans, list_plans));
  parts.push_back(JsonPart(
      "topology.json",
      Call(server, *workers, &v1::WorkerService::Stub::GetTopology, v1::GetTopologyRequest())));
  parts.push_back(JsonPart("cache.json", Call(server, *plans, &v1::PlanService::Stub::GetCacheStats,
                                              v1::GetCacheStatsRequest())));
  return parts;
}

}  // namespace remesh::client
