// SPDX-License-Identifier: Apache-2.0
#include "service/process/version.h"

namespace remesh::service {

const char kVersion[] = REMESH_VERSION;

}  // namespace remesh::service
