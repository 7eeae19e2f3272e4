// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "server/journal/journal.h"

namespace remesh::server {

// A journal in a directory of its own, with access to the bytes of its files.
class JournalFiles : public testing::Test {
 protected:
  using Files = std::map<std::string, std::string>;  // by what follows PATH
  using Rows = std::map<std::string, std::string>;

  JournalFiles() {
    // In memory if possible, because tests sync thousands of times.
    const std::filesystem::path memory = "/dev/shm";
    std::string pattern =
        ((access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path()) /
         "remesh-journal-XXXXXX")
            .string();
    directory_ = mkdtemp(pattern.data());
    path_ = (directory_ / "journal.db").string();
  }
  ~JournalFiles() override { std::filesystem::remove_all(directory_); }

  absl::StatusOr<std::unique_ptr<Journal>> Open(const Journal::Options& options = {}) {
    return Journal::Open(path_, options);
  }
  std::string ReasonOf(const Journal::Options& options = {}) {
    return GetErrorInfo(Open(options).status()).reason;
  }
  // Opens it or fails the test.
  std::unique_ptr<Journal> MustOpen(const Journal::Options& options = {}) {
    auto journal = Open(options);
    EXPECT_TRUE(journal.ok()) << journal.status();
    return journal.ok() ? *std::move(journal) : nullptr;
  }

  // Writes one more transaction.
  static void Add(Journal& journal, uint64_t& sequence, const std::vector<Record>& records) {
    const absl::Status status = journal.Write(++sequence, records);
    EXPECT_TRUE(status.ok()) << status;
  }
  // Writes `count` transactions, the first of this life, that change a few records over and over.
  static uint64_t AddMany(Journal& journal, int count, size_t bytes = 300) {
    uint64_t sequence = journal.past().sequence;
    for (int i = 0; i < count; ++i) {
      const std::string content = std::to_string(sequence) + std::string(bytes, 'x');
      Add(journal, sequence, {{"state/" + std::to_string(i % 7), content}});
    }
    return sequence;
  }

  static std::string ReadFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  static void WriteFile(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  // Copies the files of a journal that may be open, as a crash would leave them. An empty WAL
  // counts as none.
  Files Take() const {
    Files files;
    for (const char* suffix : {"", "-wal", ".head"}) {
      if (std::filesystem::exists(path_ + suffix)) files[suffix] = ReadFile(path_ + suffix);
    }
    if (files.contains("-wal") && files.at("-wal").empty()) files.erase("-wal");
    return files;
  }
  void Put(const Files& files) const {
    for (const char* suffix : {"", "-wal", ".head"}) {
      std::filesystem::remove(path_ + suffix);
      if (files.contains(suffix)) WriteFile(path_ + suffix, files.at(suffix));
    }
  }

  std::filesystem::path directory_;
  std::string path_;
};

}  // namespace remesh::server
