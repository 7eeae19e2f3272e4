// SPDX-License-Identifier: Apache-2.0
#include "client/commands/plan_files.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/input.h"
#include "remesh/v1/plan.grpc.pb.h"

namespace remesh::client {

using PlanStub = v1::PlanService::Stub;

absl::StatusOr<std::string> DownloadPlan(const Endpoint& server, const std::string& name) {
  const std::unique_ptr<PlanStub> stub = v1::PlanService::NewStub(ConnectServer(server));
  grpc::ClientContext context;
  SetDeadline(context, server.timeout_seconds);
  v1::ExportPlanRequest request;
  request.set_name(name);
  const auto reader = stub->ExportPlan(&context, request);
  std::string bytes;
  for (v1::ExportPlanResponse part; reader->Read(&part);) bytes += part.data();
  RETURN_IF_ERROR(FromGrpcStatus(reader->Finish(), server));
  return bytes;
}

absl::Status WriteBytes(const std::string& path, const std::string& bytes) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return absl::OkStatus();
  const bool no_folder = errno == ENOENT;
  return MakeError(no_folder ? absl::StatusCode::kNotFound : absl::StatusCode::kUnavailable,
                   absl::StrCat("cannot write ", path, ": ", std::strerror(errno)),
                   {.reason = "FILE_NOT_WRITTEN", .metadata = {{"path", path}}});
}

absl::StatusOr<v1::Plan> UploadPlan(const Endpoint& server, const std::string& path,
                                    const v1::PlanSpec* spec) {
  v1::ImportPlanRequest request;
  ASSIGN_OR_RETURN(*request.mutable_data(), ReadText(path));
  if (spec != nullptr) *request.mutable_spec() = *spec;
  const std::unique_ptr<PlanStub> stub = v1::PlanService::NewStub(ConnectServer(server));
  absl::StatusOr<v1::Plan> plan = Call(server, *stub, &PlanStub::ImportPlan, request);
  if (plan.ok()) return plan;
  ErrorInfo info = GetErrorInfo(plan.status());
  if (info.reason != "PLAN_FILE_INVALID") return plan;
  info.metadata["file"] = path == "-" ? "stdin" : path;
  return MakeError(plan.status().code(),
                   absl::StrCat(info.metadata["file"], ": ", std::string(plan.status().message())),
                   info);
}

}  // namespace remesh::client
