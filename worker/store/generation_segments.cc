// SPDX-License-Identifier: Apache-2.0
#include "worker/store/generation_segments.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

absl::Status Lost(const worker::SegmentRecord& record, const std::string& why) {
  const std::string what = absl::StrCat("its device memory ", record.file(), ": ", why);
  return MakeError(absl::StatusCode::kDataLoss, what, {"CORRUPT_FILE", {{"why", what}}});
}

// Index of the record's file; -1 if the generation has no file of that name and size.
int FileOf(const Generation& generation, const worker::SegmentRecord& record) {
  const auto& files = generation.places.files;
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i].name == record.file() && files[i].bytes == record.bytes())
      return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

void NameSegments(const DeviceSegments* segments, Generation& generation) {
  if (segments == nullptr) return;
  for (const ShardPlaces::File& file : generation.places.files) {
    if (!file.of_device) continue;
    worker::SegmentRecord& record = *generation.manifest.add_segments();
    record.set_file(file.name);
    record.set_name(
        DeviceSegments::NewName(generation.state_uid(), generation.number(), file.name));
    record.set_bytes(file.bytes);
    record.set_device_uuid(segments->UuidOf(file.local_device));
  }
}

absl::Status MakeSegments(DeviceSegments* segments, const Generation& generation) {
  for (const worker::SegmentRecord& record : generation.manifest.segments()) {
    const int file = FileOf(generation, record);
    const int local = generation.places.files[file].local_device;
    ASSIGN_OR_RETURN(DeviceSegment made, segments->Make(record.name(), local, record.bytes()));
    generation.segments->emplace(file, std::move(made));
  }
  return absl::OkStatus();
}

absl::Status FindSegments(DeviceSegments* segments, const Generation& generation) {
  for (const worker::SegmentRecord& record : generation.manifest.segments()) {
    const int file = FileOf(generation, record);
    if (file < 0) return Lost(record, "is not of this generation");
    if (segments == nullptr) return Lost(record, "device_buffers is not \"device\" now");
    const int local = generation.places.files[file].local_device;
    if (const std::string uuid = segments->UuidOf(local); uuid != record.device_uuid()) {
      return Lost(record, absl::StrCat("is of device ", record.device_uuid(), ", but local device ",
                                       local, " is ", uuid));
    }
    auto found = segments->Find(record.name(), local, record.bytes());
    if (absl::IsUnavailable(found.status())) return found.status();
    if (!found.ok()) return Lost(record, std::string(found.status().message()));
    if (!generation.segments->emplace(file, *std::move(found)).second)
      return Lost(record, "is there twice");
  }
  return absl::OkStatus();
}

void DropSegments(DeviceSegments* segments, const Generation& generation) {
  generation.segments->clear();
  for (const worker::SegmentRecord& record : generation.manifest.segments()) {
    if (segments != nullptr) segments->Drop(record.name());
  }
}

}  // namespace remesh::worker
