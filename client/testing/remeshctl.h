// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"

namespace remesh::client {

inline constexpr char kExample[] = "client/testdata/example_spec.json";

// remeshctl as a user runs it: the binary, its exit code, stdout and stderr.
struct Result {
  int code = -1;
  std::string out;
  std::string err;
};

inline std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Runs `ENVIRONMENT remeshctl ARGUMENTS`, which the shell reads.
inline Result Remeshctl(const std::string& arguments, const std::string& environment = "") {
  const char* folder = std::getenv("REMESH_BIN_DIR");
  const std::string err = absl::StrCat(testing::TempDir(), "/remeshctl_test.", getpid(), ".err");
  const std::string command =
      absl::StrCat(environment, " timeout 60 ", folder == nullptr ? "build/release/bin" : folder,
                   "/remeshctl ", arguments, " 2>", err);
  Result result;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) result.out.append(buffer, n);
  result.code = WEXITSTATUS(pclose(pipe));
  result.err = ReadAll(err);
  std::remove(err.c_str());
  return result;
}

}  // namespace remesh::client
