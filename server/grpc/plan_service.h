// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "remesh/v1/plan.grpc.pb.h"
#include "server/grpc/unary.h"
#include "server/planning/kept_bytes.h"
#include "server/planning/program_indexes.h"

namespace remesh::server {

class PlanService : public v1::PlanService::CallbackService {
 public:
  explicit PlanService(const Backend& backend) : backend_(backend) {}

  grpc::ServerUnaryReactor* CreatePlan(grpc::CallbackServerContext* context,
                                       const v1::CreatePlanRequest* request,
                                       v1::CreatePlanResponse* response) override;
  grpc::ServerUnaryReactor* GetPlan(grpc::CallbackServerContext* context,
                                    const v1::GetPlanRequest* request, v1::Plan* response) override;
  grpc::ServerWriteReactor<v1::Plan>* StreamPlan(grpc::CallbackServerContext* context,
                                                 const v1::GetPlanRequest* request) override;
  grpc::ServerUnaryReactor* ListPlans(grpc::CallbackServerContext* context,
                                      const v1::ListPlansRequest* request,
                                      v1::ListPlansResponse* response) override;
  grpc::ServerUnaryReactor* DeletePlan(grpc::CallbackServerContext* context,
                                       const v1::DeletePlanRequest* request,
                                       google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* PinPlan(grpc::CallbackServerContext* context,
                                    const v1::PinPlanRequest* request, v1::Plan* response) override;
  grpc::ServerUnaryReactor* UnpinPlan(grpc::CallbackServerContext* context,
                                      const v1::UnpinPlanRequest* request,
                                      v1::Plan* response) override;
  grpc::ServerUnaryReactor* GetCacheStats(grpc::CallbackServerContext* context,
                                          const v1::GetCacheStatsRequest* request,
                                          v1::CacheStats* response) override;
  grpc::ServerUnaryReactor* FlushPlans(grpc::CallbackServerContext* context,
                                       const v1::FlushPlansRequest* request,
                                       v1::FlushPlansResponse* response) override;
  grpc::ServerWriteReactor<v1::ExportPlanResponse>* ExportPlan(
      grpc::CallbackServerContext* context, const v1::ExportPlanRequest* request) override;
  grpc::ServerUnaryReactor* ImportPlan(grpc::CallbackServerContext* context,
                                       const v1::ImportPlanRequest* request,
                                       v1::Plan* response) override;
  grpc::ServerWriteReactor<v1::WatchPlansResponse>* WatchPlans(
      grpc::CallbackServerContext* context, const v1::WatchPlansRequest* request) override;
  grpc::ServerUnaryReactor* PrecomputePlans(grpc::CallbackServerContext* context,
                                            const v1::PrecomputePlansRequest* request,
                                            v1::PrecomputePlansResponse* response) override;
  grpc::ServerWriteReactor<v1::HostProgram>* GetHostProgram(
      grpc::CallbackServerContext* context, const v1::GetHostProgramRequest* request) override;
  grpc::ServerUnaryReactor* ExplainPlan(grpc::CallbackServerContext* context,
                                        const v1::ExplainPlanRequest* request,
                                        v1::ExplainPlanResponse* response) override;
  grpc::ServerWriteReactor<v1::RenderPlanResponse>* RenderPlan(
      grpc::CallbackServerContext* context, const v1::RenderPlanRequest* request) override;
  grpc::ServerUnaryReactor* SuggestIntermediateSharding(
      grpc::CallbackServerContext* context, const v1::SuggestIntermediateShardingRequest* request,
      v1::SuggestIntermediateShardingResponse* response) override;

 private:
  void Observe(const v1::CreatePlanResponse& response);
  void FindPlan(grpc::CallbackServerContext* context, const v1::CreatePlanRequest* request,
                v1::CreatePlanResponse* response, Completion completion);
  // Handle a call whose answer is an absl::StatusOr of the response: Ask() with `answer(budget)`
  // for a call that may plan, LookUp() with `answer()` for one that only looks into the cache.
  template <typename Response, typename Answer>
  grpc::ServerUnaryReactor* Ask(grpc::CallbackServerContext* context, const char* method,
                                const std::string& resource, Response* response, Answer answer);
  template <typename Response, typename Answer>
  grpc::ServerUnaryReactor* LookUp(grpc::CallbackServerContext* context, const char* method,
                                   const std::string& resource, Response* response, Answer answer);

  const Backend backend_;
  KeptBytes texts_{size_t{256} << 20};  // of ExportPlan and RenderPlan
  KeptBytes ahead_{size_t{128} << 20};  // of StreamPlan and GetHostProgram
  ProgramIndexes indexes_;              // for GetHostProgram
};

}  // namespace remesh::server
