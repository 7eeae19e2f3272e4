// SPDX-License-Identifier: Apache-2.0
#include "worker/device/table_device.h"

#include <utility>

namespace remesh::worker {

void TableDevice::Pack(std::vector<SlicePart> parts, std::byte* buffer, Done done) {
  RunTable(WorkKind::kPack, std::move(parts), buffer, std::move(done));
}

void TableDevice::Unpack(std::vector<SlicePart> parts, const std::byte* buffer, Done done) {
  RunTable(WorkKind::kUnpack, std::move(parts), const_cast<std::byte*>(buffer), std::move(done));
}

void TableDevice::Copy(std::vector<SlicePart> parts, Done done) {
  RunTable(WorkKind::kCopy, std::move(parts), nullptr, std::move(done));
}

void TableDevice::Check(std::vector<SlicePart> parts, Done done) {
  RunTable(WorkKind::kCheck, std::move(parts), nullptr, std::move(done));
}

}  // namespace remesh::worker
