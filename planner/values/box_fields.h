// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh::planner {

// Reads or writes the bytes of a box, with either archive of planner/values/byte_archive.h.
template <typename Archive, typename T>  // T: const or not
void BoxFields(Archive& a, T& box) {
  a.Each(box.dims, [&](auto& dim) {
    a.Number(dim.lo);
    a.Number(dim.hi);
  });
}

}  // namespace remesh::planner
