// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh::service {

// The version of this build, such as "0.1.0".
extern const char kVersion[];

}  // namespace remesh::service
