// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/formed_world.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include "remesh/v1/coordination.pb.h"
#include "server/coordination/messages.h"

namespace remesh::server::coordination {

// The fields of a message may come in parts, one after the other.
std::string FormedWorld::EventHead(int rank) const {
  using google::protobuf::internal::WireFormatLite;
  v1::WorldEvent::Formed formed;
  formed.set_epoch(epoch);
  formed.set_rank(rank);
  formed.set_size(size);
  std::string head;
  google::protobuf::io::StringOutputStream stream(&head);
  google::protobuf::io::CodedOutputStream out(&stream);
  WireFormatLite::WriteTag(v1::WorldEvent::kFormedFieldNumber,
                           WireFormatLite::WIRETYPE_LENGTH_DELIMITED, &out);
  out.WriteVarint64(formed.ByteSizeLong() + EventRest().size());
  formed.SerializeToCodedStream(&out);
  out.Trim();
  return head;
}

const std::string& FormedWorld::EventRest() const {
  absl::call_once(once_, [this] {
    v1::WorldEvent::Formed formed;
    for (size_t rank = 0; rank < members.size(); ++rank) {
      *formed.add_members() = MemberOf(members[rank], static_cast<int>(rank));
    }
    rest_ = formed.SerializeAsString();
  });
  return rest_;
}

}  // namespace remesh::server::coordination
