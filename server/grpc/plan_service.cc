// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/plan_service.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/report/explanation.h"
#include "proto/spec/explain_proto.h"
#include "proto/spec/plan_proto.h"
#include "proto/spec/suggest.h"
#include "server/controller/pagination.h"
#include "server/grpc/chunk_stream.h"
#include "server/grpc/refused_stream.h"
#include "server/planning/plan_moves.h"

namespace remesh {
namespace {

constexpr size_t kFullBytesMax = 4 << 20;
constexpr size_t kChunkBytes = 1 << 20;

// Calls emit(chunk) for transfers in chunks of about kChunkBytes until it returns false.
template <typename Emit>
void ForEachTransferChunk(const BoundPlan& plan, Emit emit) {
  v1::Plan chunk;
  size_t bytes = 0;
  bool wanted = true;
  ForEachTransferProto(plan.cached->plan, plan.cached->request, plan.binding,
                       [&](const v1::Transfer& transfer) {
                         if (!wanted) return;
                         *chunk.add_transfers() = transfer;
                         bytes += transfer.ByteSizeLong() + 4;
                         if (bytes < kChunkBytes) return;
                         wanted = emit(std::exchange(chunk, {}));
                         bytes = 0;
                       });
  if (wanted && !chunk.transfers().empty()) emit(std::move(chunk));
}

absl::StatusOr<v1::Plan> GetPlan(PlanCache& cache, const v1::GetPlanRequest& request) {
  ASSIGN_OR_RETURN(const ListedPlan listed, cache.Find(request.name()));
  v1::Plan plan = ToProto(listed);
  if (request.view() != v1::FULL) return plan;
  size_t bytes = plan.ByteSizeLong();
  ForEachTransferChunk(*listed.plan, [&](v1::Plan chunk) {
    bytes += chunk.ByteSizeLong();
    plan.MergeFrom(chunk);
    return bytes <= kFullBytesMax;
  });
  if (bytes <= kFullBytesMax) return plan;
  const std::string most = absl::StrCat(kFullBytesMax);
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat(request.name(), " has more than ", most, " bytes: ask StreamPlan"),
      {.reason = "PLAN_TOO_LARGE", .metadata = {{"plan", request.name()}, {"bytes_max", most}}});
}

absl::Status StreamPlan(PlanCache& cache, const v1::GetPlanRequest& request,
                        ChunkWriter<v1::Plan>& writer) {
  ASSIGN_OR_RETURN(const ListedPlan listed, cache.Find(request.name()));
  if (!writer.Write(ToProto(listed)) || request.view() != v1::FULL)
    return absl::OkStatus();
  ForEachTransferChunk(*listed.plan,
                       [&](v1::Plan chunk) { return writer.Write(std::move(chunk)); });
  return absl::OkStatus();
}

absl::StatusOr<v1::ListPlansResponse> ListPlans(PlanCache& cache,
                                                const v1::ListPlansRequest& request) {
  ASSIGN_OR_RETURN(const PageStart start,
                   ParsePage(request.page_size(), request.page_token(), "plans"));
  uint64_t before = 0;
  if (!start.after.empty() && !absl::SimpleAtoi(start.after, &before)) {
    return InvalidField("page_token", request.page_token(),
                        "must be the next_page_token of the same request");
  }
  v1::ListPlansResponse response;
  uint64_t next = 0;
  for (const ListedPlan& listed : cache.List(start.size, before, next))
    *response.add_plans() = ToProto(listed);
  if (next != 0) response.set_next_page_token(MakePageToken("plans", absl::StrCat(next)));
  return response;
}

absl::StatusOr<v1::ExplainPlanResponse> ExplainPlan(PlanCache& cache,
                                                    const v1::ExplainPlanRequest& request) {
  ASSIGN_OR_RETURN(const ListedPlan listed, cache.Find(request.name()));
  const CachedPlan& cached = *listed.plan->cached;
  const ExplainOptions options = ToExplainOptions(request.checkpoint_bytes_per_second());
  ASSIGN_OR_RETURN(const Explanation explanation,
                   Explain(cached.request, cached.plan, listed.plan->binding, options));
  v1::ExplainPlanResponse response;
  *response.mutable_plan() = ToProto(listed);
  *response.mutable_explanation() = ToProto(explanation);
  return response;
}

absl::StatusOr<v1::Plan> SetPinned(PlanCache& cache, const std::string& name, bool pinned) {
  ASSIGN_OR_RETURN(const ListedPlan listed, cache.SetPinned(name, pinned));
  return ToProto(listed);
}

}  // namespace

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

template <typename Response, typename Answer>
ServerUnaryReactor* PlanService::Ask(CallbackServerContext* context, const char* method,
                                     const std::string& resource, Response* response,
                                     Answer answer) {
  return AskPlanner(backend_, context, method, resource, [=](Completion completion) {
    absl::StatusOr<Response> result = answer();
    if (result.ok()) *response = *std::move(result);
    completion.Finish(result.status());
  });
}

template <typename Chunk, typename Fill>
grpc::ServerWriteReactor<Chunk>* PlanService::Stream(CallbackServerContext* context,
                                                     const char* method,
                                                     const std::string& resource, Fill fill) {
  const absl::Status status = backend_.Authorize(*context, method, resource);
  if (!status.ok()) return new RefusedStream<Chunk>(status);
  auto* stream = new ChunkStream<Chunk>(context);
  backend_.core.streamers().Post(
      [fill = std::move(fill), writer = ChunkWriter<Chunk>(stream)]() mutable {
        const absl::Status end = fill(writer);
        writer.End(end);
      });
  return stream;
}

ServerUnaryReactor* PlanService::CreatePlan(CallbackServerContext* context,
                                            const v1::CreatePlanRequest* request,
                                            v1::CreatePlanResponse* response) {
  return Ask(context, "CreatePlan", "", response, [=, this] {
    auto created =
        remesh::CreatePlan(backend_.core.plans(), *request, backend_.core.topology().get());
    if (created.ok()) backend_.core.observer().OnPlanned(created->planning());
    return created;
  });
}

ServerUnaryReactor* PlanService::GetPlan(CallbackServerContext* context,
                                         const v1::GetPlanRequest* request, v1::Plan* response) {
  return Ask(context, "GetPlan", request->name(), response,
             [=, this] { return remesh::GetPlan(backend_.core.plans(), *request); });
}

grpc::ServerWriteReactor<v1::Plan>* PlanService::StreamPlan(CallbackServerContext* context,
                                                            const v1::GetPlanRequest* request) {
  return Stream<v1::Plan>(context, "StreamPlan", request->name(),
                          [this, request = *request](ChunkWriter<v1::Plan>& writer) {
                            return remesh::StreamPlan(backend_.core.plans(), request, writer);
                          });
}

ServerUnaryReactor* PlanService::ListPlans(CallbackServerContext* context,
                                           const v1::ListPlansRequest* request,
                                           v1::ListPlansResponse* response) {
  return Ask(context, "ListPlans", "", response,
             [=, this] { return remesh::ListPlans(backend_.core.plans(), *request); });
}

ServerUnaryReactor* PlanService::DeletePlan(CallbackServerContext* context,
                                            const v1::DeletePlanRequest* request,
                                            google::protobuf::Empty* response) {
  return Ask(context, "DeletePlan", request->name(), response,
             [=, this]() -> absl::StatusOr<google::protobuf::Empty> {
               RETURN_IF_ERROR(backend_.core.plans().Delete(request->name()));
               return google::protobuf::Empty();
             });
}

ServerUnaryReactor* PlanService::PinPlan(CallbackServerContext* context,
                                         const v1::PinPlanRequest* request, v1::Plan* response) {
  return Ask(context, "PinPlan", request->name(), response,
             [=, this] { return SetPinned(backend_.core.plans(), request->name(), true); });
}

ServerUnaryReactor* PlanService::UnpinPlan(CallbackServerContext* context,
                                           const v1::UnpinPlanRequest* request,
                                           v1::Plan* response) {
  return Ask(context, "UnpinPlan", request->name(), response,
             [=, this] { return SetPinned(backend_.core.plans(), request->name(), false); });
}

ServerUnaryReactor* PlanService::GetCacheStats(CallbackServerContext* context,
                                               const v1::GetCacheStatsRequest*,
                                               v1::CacheStats* response) {
  return Ask(context, "GetCacheStats", "", response,
             [this]() -> absl::StatusOr<v1::CacheStats> { return backend_.core.plans().stats(); });
}

grpc::ServerWriteReactor<v1::HostProgramChunk>* PlanService::GetHostProgram(
    CallbackServerContext* context, const v1::GetHostProgramRequest* request) {
  return Stream<v1::HostProgramChunk>(
      context, "GetHostProgram", request->plan(),
      [this, request = *request](ChunkWriter<v1::HostProgramChunk>& writer) -> absl::Status {
        ASSIGN_OR_RETURN(const ListedPlan listed, backend_.core.plans().Find(request.plan()));
        const CachedPlan& cached = *listed.plan->cached;
        return ForEachProgramChunk(
            cached.plan, cached.request, listed.plan->binding, request.host(),
            [&](const v1::HostProgramChunk& chunk) { return writer.Write(chunk); });
      });
}

ServerUnaryReactor* PlanService::ExplainPlan(CallbackServerContext* context,
                                             const v1::ExplainPlanRequest* request,
                                             v1::ExplainPlanResponse* response) {
  return Ask(context, "ExplainPlan", request->name(), response,
             [=, this] { return remesh::ExplainPlan(backend_.core.plans(), *request); });
}

ServerUnaryReactor* PlanService::SuggestIntermediateSharding(
    CallbackServerContext* context, const v1::SuggestIntermediateShardingRequest* request,
    v1::SuggestIntermediateShardingResponse* response) {
  return Ask(context, "SuggestIntermediateSharding", "", response,
             [=] { return remesh::SuggestIntermediateSharding(*request); });
}

}  // namespace remesh
