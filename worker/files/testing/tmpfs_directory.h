// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

namespace remesh::worker {

// A new folder on the tmpfs where workers keep their buffers, or where tests keep files if there is
// none. The caller removes it.
inline std::string NewTmpfsDirectory(const std::string& name) {
  std::string path = "/dev/shm/" + name + ".XXXXXX";
  if (mkdtemp(path.data()) != nullptr) return path;
  path = ::testing::TempDir() + "/" + name + ".XXXXXX";
  EXPECT_NE(mkdtemp(path.data()), nullptr) << path;
  return path;
}

}  // namespace remesh::worker
