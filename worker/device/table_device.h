// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "worker/device/device.h"
#include "worker/device/work_table.h"

namespace remesh::worker {

// A device that runs each call as one table of work.
class TableDevice : public Device {
 public:
  void Pack(std::vector<SlicePart> parts, std::byte* buffer, Done done) final;
  void Unpack(std::vector<SlicePart> parts, const std::byte* buffer, Done done) final;
  void Copy(std::vector<SlicePart> parts, Done done) final;
  void Check(std::vector<SlicePart> parts, Done done) final;

 private:
  // `buffer` is null where the call has none. Work of kind kUnpack only reads it.
  virtual void RunTable(WorkKind kind, std::vector<SlicePart> parts, std::byte* buffer,
                        Done done) = 0;
};

}  // namespace remesh::worker
