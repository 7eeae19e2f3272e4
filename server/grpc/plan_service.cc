// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/plan_service.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/report/explanation.h"
#include "proto/convert/explain_proto.h"
#include "proto/convert/plan_proto.h"
#include "proto/convert/suggest.h"
#include "server/cache/plan_filter.h"
#include "server/cache/plan_list.h"
#include "server/callers/roles.h"
#include "server/controller/values/digest.h"
#include "server/controller/values/pagination.h"
#include "server/grpc/fill_stream.h"
#include "server/grpc/plan_watch.h"
#include "server/grpc/refused_stream.h"
#include "server/planning/plan_export.h"
#include "server/planning/plan_pieces.h"
#include "server/planning/read_ahead.h"
#include "server/planning/render_plan.h"
#include "server/questions/create_plan.h"
#include "server/questions/join_spec.h"
#include "server/questions/new_workers.h"

namespace remesh::server {

using planner::Budget;
using planner::Explain;

namespace {

constexpr size_t kFullBytesMax = 4 << 20;

absl::StatusOr<v1::Plan> GetPlan(PlanCache& cache, const v1::GetPlanRequest& request) {
  v1::Plan plan;
  size_t bytes = 0;
  RETURN_IF_ERROR(PlanPieces(cache, request).Emit([&](const v1::Plan& piece) {
    bytes += piece.ByteSizeLong();
    plan.MergeFrom(piece);
    return bytes <= kFullBytesMax && request.view() == v1::FULL;
  }));
  if (bytes <= kFullBytesMax || request.view() != v1::FULL) return plan;
  const std::string most = absl::StrCat(kFullBytesMax);
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat(request.name(), " has more than ", most, " bytes: ask StreamPlan"),
      {.reason = "PLAN_TOO_LARGE", .metadata = {{"plan", request.name()}, {"max_bytes", most}}});
}

// Returns a ReadAhead::Make that makes the program of one host.
auto ProgramPieces(PlanCache& cache, ProgramIndexes& indexes,
                   const v1::GetHostProgramRequest& request) {
  return [&cache, &indexes, request, plan = BoundPlanPtr(),
          index = std::shared_ptr<const planner::ProgramIndex>(),
          emitted = int64_t{0}](ChunkStream<v1::HostProgram>::Emit emit) mutable -> absl::Status {
    if (plan == nullptr) {
      ASSIGN_OR_RETURN(const ListedPlan listed, cache.Find(request.plan()));
      plan = listed.plan;
      index = indexes.Of(plan->cached);
    }
    // Each call makes the program again and skips the pieces that were emitted.
    int64_t made = 0;
    return proto::ForEachProgramMessage(plan->cached->plan, *index, plan->cached->request,
                                        plan->binding, request.host(),
                                        [&](const v1::HostProgram& piece) {
                                          if (made++ < emitted) return true;
                                          ++emitted;
                                          if (made > 1) return emit(piece);
                                          v1::HostProgram first = piece;
                                          first.set_plan_digest(plan->cached->digest);
                                          return emit(std::move(first));
                                        });
  };
}

// Tokens carry the last plan's time and name.
absl::StatusOr<PlanCache::Place> PlaceOf(const std::string& after, const std::string& token) {
  PlanCache::Place place;
  if (after.empty()) return place;
  const size_t colon = after.find(':');
  int64_t micros = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(after.substr(0, colon), &micros)) {
    return InvalidField("page_token", token, "must be the next_page_token of the same request");
  }
  return PlanCache::Place{absl::FromUnixMicros(micros), after.substr(colon + 1)};
}

absl::StatusOr<v1::ListPlansResponse> ListPlans(PlanCache& cache,
                                                const v1::ListPlansRequest& request) {
  RETURN_IF_ERROR(CheckView(request.view(), /*list=*/true));
  RETURN_IF_ERROR(AtField("filter", ValidateFilter(request.filter())));
  const std::string scope = absl::StrCat("plans ", Digest(request.filter()));
  ASSIGN_OR_RETURN(const PageStart start,
                   ParsePage(request.page_size(), request.page_token(), scope));
  ASSIGN_OR_RETURN(PlanCache::Place after, PlaceOf(start.after, request.page_token()));
  const v1::PlanView view = request.view() == v1::SUMMARY ? v1::SUMMARY : v1::BASIC;
  PlanPage page = PageOfPlans(cache, start.size, std::move(after), request.filter(), view);
  v1::ListPlansResponse response;
  for (v1::Plan& plan : page.plans) *response.add_plans() = std::move(plan);
  if (page.next) {
    const int64_t micros = absl::ToUnixMicros(page.next->created);
    response.set_next_page_token(MakePageToken(scope, absl::StrCat(micros, ":", page.next->name)));
  }
  return response;
}

absl::StatusOr<v1::FlushPlansResponse> FlushPlans(PlanCache& cache,
                                                  const v1::FlushPlansRequest& request) {
  bool memory = request.tiers().empty();
  bool disk = memory;
  for (int i = 0; i < request.tiers_size(); ++i) {
    const int tier = request.tiers(i);
    memory = memory || tier == v1::MEMORY;
    disk = disk || tier == v1::DISK;
    if (tier == v1::MEMORY || tier == v1::DISK) continue;
    return InvalidField(absl::StrCat("tiers[", i, "]"), absl::StrCat(tier),
                        "must be MEMORY or DISK");
  }
  return cache.Flush(memory, disk);
}

absl::StatusOr<v1::PrecomputePlansResponse> PrecomputePlans(
    Core& core, const std::string& caller, const v1::PrecomputePlansRequest& request,
    const v1::StateSpec* state, Budget& budget) {
  const auto workers = core.topology();
  if (state != nullptr) {
    v1::StateSpec present = *state;
    AddAllWorkers(present, workers.get());  // hosts that it may grow onto
    return core.precomputer().Start(caller, request, std::move(present), request.options(),
                                    workers.get(), budget);
  }
  if (!request.has_spec()) return InvalidField("layout", "", "must be spec or state");
  if (request.has_options()) {
    return InvalidField("options", "set", "must be empty with a spec: the spec has its own");
  }
  return core.precomputer().Start(caller, request, TargetOf(request.spec()),
                                  request.spec().options(), workers.get(), budget);
}

absl::StatusOr<v1::ExplainPlanResponse> ExplainPlan(PlanCache& cache,
                                                    const v1::ExplainPlanRequest& request,
                                                    Budget& budget) {
  ASSIGN_OR_RETURN(const ListedPlan listed, cache.Find(request.name()));
  const CachedPlan& cached = *listed.plan->cached;
  const planner::ExplainOptions options =
      proto::ToExplainOptions(request.checkpoint_bytes_per_second());
  ASSIGN_OR_RETURN(const planner::Explanation explanation,
                   Explain(cached.request, cached.plan, listed.plan->binding, options, budget));
  v1::ExplainPlanResponse response;
  *response.mutable_plan() = ToProto(listed);
  *response.mutable_explanation() = proto::ToProto(explanation, cached.plan, listed.plan->binding);
  return response;
}

absl::StatusOr<std::string> Rendered(PlanCache& cache, const v1::RenderPlanRequest& request,
                                     Budget budget) {
  ASSIGN_OR_RETURN(const ListedPlan listed, cache.Find(request.name()));
  return RenderPlan(*listed.plan, request, budget);
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
  return AskDesk(backend_, context, method, resource, response, answer);
}

template <typename Response, typename Answer>
ServerUnaryReactor* PlanService::LookUp(CallbackServerContext* context, const char* method,
                                        const std::string& resource, Response* response,
                                        Answer answer) {
  return AskPool(backend_, backend_.core.lookups(), context, method, resource, response, answer);
}

void PlanService::Observe(const v1::CreatePlanResponse& response) {
  backend_.core.observer().OnPlanned(response.planning(), response.plan().compute_seconds());
}

ServerUnaryReactor* PlanService::CreatePlan(CallbackServerContext* context,
                                            const v1::CreatePlanRequest* request,
                                            v1::CreatePlanResponse* response) {
  if (absl::Status status = backend_.Authorize(*context, "CreatePlan", ""); !status.ok()) {
    return Refuse(context, status);
  }
  // A repeated question does not wait behind planning.
  ServerUnaryReactor* const now = AnswerNow(context, response, [&] {
    auto again = AnswerAgain(backend_.core.plans(), *request, backend_.core.topology().get());
    if (again.has_value()) Observe(*again);
    return again;
  });
  if (now != nullptr) return now;
  ServerUnaryReactor* const reactor = context->DefaultReactor();
  FindPlan(context, request, response, Completion(reactor));
  return reactor;
}

void PlanService::FindPlan(CallbackServerContext* context, const v1::CreatePlanRequest* request,
                           v1::CreatePlanResponse* response, Completion completion) {
  // The question and its answer must use the same workers.
  const auto workers = backend_.core.topology();
  const auto ask = [=](Budget& budget) { return QuestionOf(*request, workers.get(), budget); };
  auto done = [=, this, start = SteadyClock().Now(), completion = std::move(completion)](
                  absl::StatusOr<PlanCache::Answer> answer) mutable {
    if (!answer.ok()) return completion.Finish(answer.status());
    *response = ResponseOf(backend_.core.plans(), *request, workers.get(), *answer, start);
    Observe(*response);
    completion.Finish(absl::OkStatus());
  };
  backend_.core.desk().Find(AskerOf(context), ask, std::move(done),
                            /*long_form=*/request->spec().options().free_target_order());
}

ServerUnaryReactor* PlanService::GetPlan(CallbackServerContext* context,
                                         const v1::GetPlanRequest* request, v1::Plan* response) {
  const absl::Status status = backend_.Authorize(*context, "GetPlan", request->name());
  if (!status.ok()) return Refuse(context, status);
  if (v1::PlanView_IsValid(request->view()) && request->view() != v1::FULL) {
    const auto find = [&]() -> std::optional<v1::Plan> {
      const auto listed =
          backend_.core.plans().Find(request->name(), Access::kView, Reach::kMemory);
      if (!listed.ok()) return std::nullopt;
      return ToProto(*listed, request->view());
    };
    ServerUnaryReactor* const now = AnswerNow(context, response, find);
    if (now != nullptr) return now;
  }
  return LookUp(context, "GetPlan", request->name(), response,
                [=, this] { return server::GetPlan(backend_.core.plans(), *request); });
}

grpc::ServerWriteReactor<v1::Plan>* PlanService::StreamPlan(CallbackServerContext* context,
                                                            const v1::GetPlanRequest* request) {
  auto make = [pieces = PlanPieces(backend_.core.plans(), *request)](
                  ChunkStream<v1::Plan>::Emit emit) mutable { return pieces.Emit(emit); };
  return FillStream<v1::Plan>(backend_, backend_.core.streamers(), context, "StreamPlan", {},
                              ReadAhead<v1::Plan>(ahead_, CallerOf(*context), std::move(make),
                                                  [context] { return HasGone(*context); }));
}

ServerUnaryReactor* PlanService::ListPlans(CallbackServerContext* context,
                                           const v1::ListPlansRequest* request,
                                           v1::ListPlansResponse* response) {
  return LookUp(context, "ListPlans", request->filter().state(), response,
                [=, this] { return server::ListPlans(backend_.core.plans(), *request); });
}

ServerUnaryReactor* PlanService::DeletePlan(CallbackServerContext* context,
                                            const v1::DeletePlanRequest* request,
                                            google::protobuf::Empty* response) {
  return LookUp(context, "DeletePlan", request->name(), response,
                [=, this]() -> absl::StatusOr<google::protobuf::Empty> {
                  RETURN_IF_ERROR(backend_.core.plans().Delete(request->name()));
                  return google::protobuf::Empty();
                });
}

ServerUnaryReactor* PlanService::PinPlan(CallbackServerContext* context,
                                         const v1::PinPlanRequest* request, v1::Plan* response) {
  return LookUp(context, "PinPlan", request->name(), response,
                [=, this] { return SetPinned(backend_.core.plans(), request->name(), true); });
}

ServerUnaryReactor* PlanService::UnpinPlan(CallbackServerContext* context,
                                           const v1::UnpinPlanRequest* request,
                                           v1::Plan* response) {
  return LookUp(context, "UnpinPlan", request->name(), response,
                [=, this] { return SetPinned(backend_.core.plans(), request->name(), false); });
}

ServerUnaryReactor* PlanService::GetCacheStats(CallbackServerContext* context,
                                               const v1::GetCacheStatsRequest*,
                                               v1::CacheStats* response) {
  return LookUp(context, "GetCacheStats", "", response,
                [this] { return absl::StatusOr<v1::CacheStats>(backend_.core.plans().stats()); });
}

ServerUnaryReactor* PlanService::FlushPlans(CallbackServerContext* context,
                                            const v1::FlushPlansRequest* request,
                                            v1::FlushPlansResponse* response) {
  return LookUp(context, "FlushPlans", "", response,
                [=, this] { return server::FlushPlans(backend_.core.plans(), *request); });
}

grpc::ServerWriteReactor<v1::ExportPlanResponse>* PlanService::ExportPlan(
    CallbackServerContext* context, const v1::ExportPlanRequest* request) {
  return FillStream<v1::ExportPlanResponse>(
      backend_, backend_.core.streamers(), context, "ExportPlan", {},
      FillWithText<v1::ExportPlanResponse>(
          texts_, CallerOf(*context),
          [this, name = request->name()] {
            return server::ExportPlan(backend_.core.plans(), name);
          },
          [](std::string part) {
            v1::ExportPlanResponse piece;
            piece.set_data(std::move(part));
            return piece;
          }));
}

ServerUnaryReactor* PlanService::ImportPlan(CallbackServerContext* context,
                                            const v1::ImportPlanRequest* request,
                                            v1::Plan* response) {
  const auto take_in = [=, this](Budget& budget) {
    const auto workers = backend_.core.topology();
    return server::ImportPlan(backend_.core.plans(), *request, workers.get(), budget);
  };
  return AskDesk(backend_, context, "ImportPlan", "", response, take_in,
                 PlanDesk::Place::kPatientPlanners);
}

grpc::ServerWriteReactor<v1::WatchPlansResponse>* PlanService::WatchPlans(
    CallbackServerContext* context, const v1::WatchPlansRequest* request) {
  absl::Status status = backend_.Authorize(*context, "WatchPlans", request->filter().state());
  if (status.ok()) status = AtField("filter", ValidateFilter(request->filter()));
  if (!status.ok()) return new RefusedStream<v1::WatchPlansResponse>(status);
  std::string caller = CallerOf(*context);
  absl::StatusOr<OpenWatches::Place> place = backend_.core.open_watches().Begin(caller);
  if (!place.ok()) return new RefusedStream<v1::WatchPlansResponse>(place.status());
  return PlanWatchStream::Start(backend_.core, *std::move(place), std::move(caller),
                                request->filter());
}

ServerUnaryReactor* PlanService::PrecomputePlans(CallbackServerContext* context,
                                                 const v1::PrecomputePlansRequest* request,
                                                 v1::PrecomputePlansResponse* response) {
  if (!request->has_state()) {
    return Ask(context, "PrecomputePlans", "", response, [=, this](Budget& budget) {
      return server::PrecomputePlans(backend_.core, CallerOf(*context), *request, nullptr, budget);
    });
  }
  return AskDeskOfState(backend_, context, "PrecomputePlans", request->state(), response,
                        [=, this](const v1::State& state, Budget& budget) {
                          return server::PrecomputePlans(backend_.core, CallerOf(*context),
                                                         *request, &state.spec(), budget);
                        });
}

namespace {

// A peer that is authenticated and no worker uses the threads of other streams.
StreamThreads& ProgramThreads(Core& core, const CallbackServerContext& context) {
  const bool known = context.auth_context()->IsPeerAuthenticated();
  const bool is_worker = IsWorker(service::IdentityOf(context).name);
  return known && !is_worker ? core.streamers() : core.programs();
}

}  // namespace

grpc::ServerWriteReactor<v1::HostProgram>* PlanService::GetHostProgram(
    CallbackServerContext* context, const v1::GetHostProgramRequest* request) {
  return FillStream<v1::HostProgram>(
      backend_, ProgramThreads(backend_.core, *context), context, "GetHostProgram",
      {.host = request->host()},
      ReadAhead<v1::HostProgram>(ahead_, CallerOf(*context),
                                 ProgramPieces(backend_.core.plans(), indexes_, *request),
                                 [context] { return HasGone(*context); }));
}

ServerUnaryReactor* PlanService::ExplainPlan(CallbackServerContext* context,
                                             const v1::ExplainPlanRequest* request,
                                             v1::ExplainPlanResponse* response) {
  return Ask(context, "ExplainPlan", request->name(), response, [=, this](Budget& budget) {
    return server::ExplainPlan(backend_.core.plans(), *request, budget);
  });
}

grpc::ServerWriteReactor<v1::RenderPlanResponse>* PlanService::RenderPlan(
    CallbackServerContext* context, const v1::RenderPlanRequest* request) {
  return FillStream<v1::RenderPlanResponse>(
      backend_, backend_.core.streamers(), context, "RenderPlan", {},
      FillWithText<v1::RenderPlanResponse>(
          texts_, CallerOf(*context),
          [this, request = *request, context] {
            const auto wanted = [context] {
              return HasGone(*context) ? CallerGone() : absl::OkStatus();
            };
            return Rendered(backend_.core.plans(), request, backend_.core.desk().NewBudget(wanted));
          },
          [](std::string part) {
            v1::RenderPlanResponse piece;
            piece.set_text(std::move(part));
            return piece;
          }));
}

ServerUnaryReactor* PlanService::SuggestIntermediateSharding(
    CallbackServerContext* context, const v1::SuggestIntermediateShardingRequest* request,
    v1::SuggestIntermediateShardingResponse* response) {
  return Ask(context, "SuggestIntermediateSharding", "", response,
             [=](Budget&) { return proto::SuggestIntermediateSharding(*request); });
}

}  // namespace remesh::server
