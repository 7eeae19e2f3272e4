// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstdint>

namespace remesh::service {

// How gRPC parses the requests of our services: after a look at how much memory they will take. A
// byte of a message may take a hundred bytes of memory, so a limit on the size of messages alone is
// none on the memory of their receiver. Generated code includes this through X.requests.h.

// Decides whether a request may be parsed.
class RequestGate {
 public:
  virtual ~RequestGate() = default;
  // No request that takes more bytes is admitted.
  virtual uint64_t most() const = 0;
  // `memory`: about how many bytes the request will take. Unless OK, it is not parsed.
  virtual grpc::Status Admit(uint64_t memory) = 0;
  // The request, which came in so many bytes, is not parsed, or cannot be, for this reason. gRPC
  // itself would end the call with UNIMPLEMENTED.
  virtual void OnRefused(uint64_t bytes, const grpc::Status& why) = 0;
};

// The gate of the call whose request this thread parses next; null: none.
RequestGate*& GateOfThread();

// No request that takes more is parsed without a gate, as messages of streams.
inline constexpr uint64_t kUngatedMemoryMax = uint64_t{512} << 20;

// Parses the request if the thread's gate admits it, and empties the buffer.
// RESOURCE_EXHAUSTED, the gate's status, or INVALID_ARGUMENT for bytes of no such message.
grpc::Status ParseRequest(grpc::ByteBuffer* buffer, google::protobuf::Message* request);

// See grpc::SerializationTraits.
class BoundedRequest {
 public:
  static grpc::Status Serialize(const google::protobuf::MessageLite& message,
                                grpc::ByteBuffer* buffer, bool* own_buffer) {
    return grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::MessageLite>(
        message, buffer, own_buffer);
  }
  static grpc::Status Deserialize(grpc::ByteBuffer* buffer, google::protobuf::Message* message) {
    return ParseRequest(buffer, message);
  }
};

}  // namespace remesh::service
