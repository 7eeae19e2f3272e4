// SPDX-License-Identifier: Apache-2.0
#include "base/huge_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace remesh {
namespace {

constexpr size_t kMega = size_t{1} << 20;

// A memory mapping that nothing else uses.
class Mapping {
 public:
  explicit Mapping(size_t bytes)
      : bytes_(bytes),
        begin_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Mapping() { munmap(begin_, bytes_); }
  char* begin() const { return static_cast<char*>(begin_); }

 private:
  size_t bytes_;
  void* begin_;
};

// Whether the kernel was asked for huge pages at `address`: "hg" among the flags of its mapping.
bool AskedAt(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t lo = 0, hi = 0;
    char dash = 0;
    if (std::istringstream(line) >> std::hex >> lo >> dash >> hi && dash == '-') {
      here = lo <= wanted && wanted < hi;
    } else if (here && line.rfind("VmFlags:", 0) == 0) {
      return line.find(" hg") != std::string::npos;
    }
  }
  return false;
}

TEST(HugePagesTest, MuchMemoryIsAskedForOnHugePages) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP();
  const Mapping memory(32 * kMega);
  AskForHugePages(memory.begin() + 1, 32 * kMega - 1);
  EXPECT_TRUE(AskedAt(memory.begin() + 16 * kMega));
}

TEST(HugePagesTest, WhatLiesBesideIsLeftAlone) {
  const Mapping memory(48 * kMega);
  AskForHugePages(memory.begin() + 16 * kMega, 16 * kMega);
  EXPECT_FALSE(AskedAt(memory.begin() + 16 * kMega - 1));
  EXPECT_FALSE(AskedAt(memory.begin() + 32 * kMega));
}

TEST(HugePagesTest, LittleMemoryIsLeftAlone) {
  const Mapping memory(6 * kMega);
  AskForHugePages(memory.begin(), 6 * kMega);
  EXPECT_FALSE(AskedAt(memory.begin() + 3 * kMega));
}

}  // namespace
}  // namespace remesh
