// SPDX-License-Identifier: Apache-2.0
#include "proto/requests/request_memory.h"

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message.h>
#include <google/protobuf/wire_format_lite.h>

#include <string>

#include "absl/container/flat_hash_map.h"

namespace remesh::proto {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;
using Wire = google::protobuf::internal::WireFormatLite;

// What the heap adds to a block, and a list to an item.
constexpr uint64_t kPerBlock = 16, kPerItem = 2 * sizeof(void*);
constexpr uint64_t kPerText = sizeof(std::string) + kPerBlock + kPerItem;
constexpr uint64_t kPerMapEntry = 128;
constexpr uint64_t kPerUnknown = 32;  // a field that the message does not know
constexpr int kDepthMax = 100;        // as in the parser

class Estimate {
 public:
  Estimate(CodedInputStream& in, uint64_t most) : in_(in), most_(most) {}

  // Reads a message up to the stream's limit; false: it cannot be read, or there is too much of it.
  bool Read(const Descriptor& message, int depth) {
    bytes_ += SizeOf(message) + kPerBlock + kPerItem;
    while (bytes_ <= most_) {
      const uint32_t tag = in_.ReadTag();
      if (tag == 0) return true;
      const FieldDescriptor* field = message.FindFieldByNumber(Wire::GetTagFieldNumber(tag));
      if (!ReadField(tag, field, depth)) return false;
    }
    return false;
  }

  uint64_t bytes() const { return bytes_; }

 private:
  bool ReadField(uint32_t tag, const FieldDescriptor* field, int depth) {
    if (Wire::GetTagWireType(tag) == Wire::WIRETYPE_LENGTH_DELIMITED)
      return ReadDelimited(field, depth);
    // The fields of a group, which no message of ours has, count as those of its message.
    bytes_ += field == nullptr ? kPerUnknown : field->is_repeated() ? kPerItem : 0;
    uint64_t number = 0;
    switch (Wire::GetTagWireType(tag)) {
      case Wire::WIRETYPE_VARINT:
        return in_.ReadVarint64(&number);
      case Wire::WIRETYPE_FIXED64:
        return in_.Skip(8);
      case Wire::WIRETYPE_FIXED32:
        return in_.Skip(4);
      default:
        bytes_ += kPerText;
        return true;
    }
  }

  bool ReadDelimited(const FieldDescriptor* field, int depth) {
    uint32_t length = 0;
    if (!in_.ReadVarint32(&length)) return false;
    if (field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (depth == kDepthMax) return false;
      const auto limit = in_.PushLimit(static_cast<int>(length));
      const bool read = Read(*field->message_type(), depth + 1);
      in_.PopLimit(limit);
      return read;
    }
    const bool packed = field != nullptr && field->is_packable();
    // A list of numbers grows to twice its size.
    bytes_ += packed ? uint64_t{length} * 2 * sizeof(uint64_t) : kPerText + length;
    if (field == nullptr) bytes_ += kPerUnknown;
    return in_.Skip(static_cast<int>(length));
  }

  uint64_t SizeOf(const Descriptor& message) {
    if (message.options().map_entry()) return kPerMapEntry;  // it has no prototype of its own
    auto [found, added] = sizes_.try_emplace(&message);
    if (added) {
      found->second = google::protobuf::MessageFactory::generated_factory()
                          ->GetPrototype(&message)
                          ->SpaceUsedLong();
    }
    return found->second;
  }

  CodedInputStream& in_;
  const uint64_t most_;
  uint64_t bytes_ = 0;
  absl::flat_hash_map<const Descriptor*, uint64_t> sizes_;
};

}  // namespace

uint64_t MemoryOfParsed(google::protobuf::io::ZeroCopyInputStream& bytes, const Descriptor& message,
                        uint64_t most) {
  CodedInputStream in(&bytes);
  Estimate estimate(in, most);
  estimate.Read(message, 0);
  return estimate.bytes();
}

}  // namespace remesh::proto
