// SPDX-License-Identifier: Apache-2.0
#include "service/front/bounded_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/requests/request_memory.h"
#include "service/front/refused_message.h"

namespace remesh::service {
namespace {

grpc::Status Admit(grpc::ByteBuffer* buffer, const google::protobuf::Message& request,
                   RequestGate* gate) {
  grpc::ProtoBufferReader bytes(buffer);
  if (!bytes.status().ok()) return bytes.status();
  const uint64_t most = gate == nullptr ? kUngatedMemoryMax : gate->most();
  const uint64_t memory = proto::MemoryOfParsed(bytes, *request.GetDescriptor(), most);
  if (gate != nullptr) return gate->Admit(memory);
  if (memory <= most) return grpc::Status::OK;
  return {grpc::StatusCode::RESOURCE_EXHAUSTED,
          absl::StrCat("a message of ", buffer->Length(), " bytes would take more than ", most,
                       " bytes of memory")};
}

// Empties the buffer.
grpc::Status Parse(grpc::ByteBuffer* buffer, google::protobuf::Message* request,
                   RequestGate* gate) {
  if (buffer == nullptr) return {grpc::StatusCode::INTERNAL, "there is no request"};
  grpc::Status status = Admit(buffer, *request, gate);
  if (!status.ok()) {
    buffer->Clear();
    return status;
  }
  status =
      grpc::GenericDeserialize<grpc::ProtoBufferReader, google::protobuf::Message>(buffer, request);
  if (status.ok()) return status;
  return {grpc::StatusCode::INVALID_ARGUMENT,
          absl::StrCat("the request is not a ", request->GetDescriptor()->full_name())};
}

}  // namespace

namespace {

std::optional<RefusedMessage>& RefusedOfThread() {
  static thread_local std::optional<RefusedMessage> refused;
  return refused;
}

}  // namespace

std::optional<RefusedMessage> TakeRefusedOfThread() {
  return std::exchange(RefusedOfThread(), std::nullopt);
}

RequestGate*& GateOfThread() {
  static thread_local RequestGate* gate = nullptr;
  return gate;
}

grpc::Status ParseRequest(grpc::ByteBuffer* buffer, google::protobuf::Message* request) {
  RequestGate* const gate = GateOfThread();
  const uint64_t bytes = buffer == nullptr ? 0 : buffer->Length();
  grpc::Status status = Parse(buffer, request, gate);
  RefusedOfThread().reset();
  if (status.ok()) return status;
  if (gate != nullptr) {
    gate->OnRefused(bytes, status);
  } else {
    RefusedOfThread() = RefusedMessage{.bytes = bytes, .why = status};
  }
  return status;
}

}  // namespace remesh::service
