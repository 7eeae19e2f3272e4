// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh::service {

// Of this build, as in "0.1.0".
extern const char kVersion[];

}  // namespace remesh::service
