// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/grpcpp.h>

#include <thread>

#include "absl/status/status.h"
#include "base/error.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "service/rpc/error_info.h"

namespace remesh::client {

// Answers with a plan of two transfers, in two parts.
class FakePlanService : public v1::PlanService::Service {
  grpc::Status CreatePlan(grpc::ServerContext*, const v1::CreatePlanRequest* request,
                          v1::CreatePlanResponse* response) override {
    if (request->spec().arrays().empty()) {
      return service::StatusToGrpc(
          MakeError(absl::StatusCode::kResourceExhausted, "too much",
                    {.reason = "MEMORY_LIMIT", .metadata = {{"needed_bytes", "77"}}}));
    }
    response->mutable_plan()->set_name("plans/x");
    response->mutable_planning()->set_cache(v1::Planning::HIT);
    response->mutable_planning()->set_hosts_assumed(2);
    return grpc::Status::OK;
  }
  grpc::Status ListPlans(grpc::ServerContext*, const v1::ListPlansRequest* request,
                         v1::ListPlansResponse*) override {
    return service::StatusToGrpc(
        InvalidField("filter.state", request->filter().state(), "must be a name"));
  }
  grpc::Status ExportPlan(grpc::ServerContext*, const v1::ExportPlanRequest* request,
                          grpc::ServerWriter<v1::ExportPlanResponse>* writer) override {
    v1::ExportPlanResponse part;
    part.set_data("file of " + request->name());
    writer->Write(part);
    return grpc::Status::OK;
  }
  grpc::Status GetPlan(grpc::ServerContext*, const v1::GetPlanRequest* request,
                       v1::Plan* response) override {
    response->set_name(request->name());
    response->set_hosts_assumed(3);
    return grpc::Status::OK;
  }
  grpc::Status StreamPlan(grpc::ServerContext* context, const v1::GetPlanRequest* request,
                          grpc::ServerWriter<v1::Plan>* writer) override {
    v1::Plan part;
    part.set_name(request->name());
    part.mutable_summary()->set_total_bytes(5);
    writer->Write(part);
    while (request->name() == "plans/silent" && !context->IsCancelled()) std::this_thread::yield();
    for (int i = 0; i < 2; ++i) {
      part.Clear();
      part.add_transfers()->set_window(i);
      writer->Write(part);
    }
    return grpc::Status::OK;
  }
};

}  // namespace remesh::client
