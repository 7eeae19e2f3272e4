// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/program_fetcher.h"

#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "service/rpc/error_info.h"

namespace remesh::worker {

ProgramFetcher::ProgramFetcher(PlannerChannel* channel, std::chrono::seconds timeout)
    : channel_(channel), timeout_(timeout) {}

ProgramFetcher::~ProgramFetcher() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }
  strand_.Stop();
}

void ProgramFetcher::Fetch(ProgramRequest request, Agent::ProgramDone done) {
  strand_.Post([this, request = std::move(request), done = std::move(done)]() mutable {
    done(Read(request));
  });
}

absl::StatusOr<Program> ProgramFetcher::Read(const ProgramRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout_);
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_)
      return MakeError(absl::StatusCode::kUnavailable, "the worker stops", {"WORKER_STOPS", {}});
    context_ = &context;
  }
  v1::GetHostProgramRequest message;
  message.set_plan(request.plan.name);
  message.set_host(request.host);
  ProgramReader reader(&request.devices, request.plan);
  const auto stub = v1::PlanService::NewStub(channel_->Get());
  const auto stream = stub->GetHostProgram(&context, message);
  v1::HostProgram chunk;
  absl::Status status;
  while (stream->Read(&chunk)) {
    if (status.ok()) status = reader.Add(chunk);
    if (!status.ok()) context.TryCancel();
  }
  const grpc::Status end = stream->Finish();
  {
    absl::MutexLock lock(&mutex_);
    context_ = nullptr;
  }
  RETURN_IF_ERROR(status);
  if (!end.ok()) return service::StatusFromGrpc(end);
  return std::move(reader).Finish();
}

}  // namespace remesh::worker
