// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/assignment_parts.h"

#include <utility>

namespace remesh::server {
namespace {

// Collects entries into parts of bounded size.
class Cutter {
 public:
  Cutter(const v1::Assignment& whole, size_t max_bytes, std::vector<v1::AttachResponse>& parts)
      : whole_(whole), max_bytes_(max_bytes), parts_(parts) {}

  template <typename Entry, typename Add>
  void Move(google::protobuf::RepeatedPtrField<Entry>& entries, Add add) {
    for (Entry& entry : entries) {
      const size_t bytes = entry.ByteSizeLong() + 8;  // with tag and length
      if (part_ == nullptr || bytes_ + bytes > max_bytes_) Open();
      bytes_ += bytes;
      *add(*part_) = std::move(entry);
    }
    entries.Clear();
  }

 private:
  void Open() {
    part_ = parts_.emplace_back().mutable_assignment_part()->mutable_assignment();
    part_->set_state(whole_.state());
    part_->set_state_uid(whole_.state_uid());
    part_->set_generation(whole_.generation());
    bytes_ = part_->ByteSizeLong();
  }

  const v1::Assignment& whole_;
  const size_t max_bytes_;
  std::vector<v1::AttachResponse>& parts_;
  v1::Assignment* part_ = nullptr;
  size_t bytes_ = 0;
};

v1::Assignment* AssignmentIn(v1::AttachResponse& message) {
  if (message.has_assign_state()) return message.mutable_assign_state()->mutable_assignment();
  return message.has_prepare() ? message.mutable_prepare()->mutable_target() : nullptr;
}

}  // namespace

std::vector<v1::AttachResponse> CutAssignment(v1::AttachResponse message, size_t max_bytes) {
  std::vector<v1::AttachResponse> parts;
  v1::Assignment* whole = AssignmentIn(message);
  if (whole != nullptr && whole->ByteSizeLong() > max_bytes) {
    Cutter cutter(*whole, max_bytes, parts);
    cutter.Move(*whole->mutable_arrays(), [](v1::Assignment& part) { return part.add_arrays(); });
    cutter.Move(*whole->mutable_shards(), [](v1::Assignment& part) { return part.add_shards(); });
  }
  parts.push_back(std::move(message));
  return parts;
}

}  // namespace remesh::server
