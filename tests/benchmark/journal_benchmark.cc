// SPDX-License-Identifier: Apache-2.0
// What a journaled transaction costs, beside one sync of the same disk: journal_benchmark FOLDER.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/journal/journal_writer.h"

namespace remesh::server {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Measure(const char* what, int count, absl::FunctionRef<void(int)> once) {
  std::vector<double> seconds;
  for (int i = 0; i < count; ++i) {
    const auto start = Clock::now();
    once(i);
    seconds.push_back(SecondsSince(start));
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("%-34s median %8.0f us  p99 %8.0f us\n", what, seconds[count / 2] * 1e6,
              seconds[count * 99 / 100] * 1e6);
}

Record RecordOf(int i) { return {"state/" + std::to_string(i % 50), std::string(500, 'x')}; }

void MeasureSync(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const std::string block(4096, 'x');
  Measure("pwrite and fdatasync of 4 KiB", 2000, [&](int) {
    if (pwrite(fd, block.data(), block.size(), 0) < 0 || fdatasync(fd) != 0) std::abort();
  });
  close(fd);
}

int Run(const std::string& folder) {
  MeasureSync(folder + "/sync");
  auto journal = Journal::Open(folder + "/journal.db", {});
  if (!journal.ok()) {
    std::fprintf(stderr, "%s\n", std::string(journal.status().message()).c_str());
    return 1;
  }
  uint64_t sequence = (*journal)->past().sequence;
  Measure("Journal::Write of a record", 2000, [&](int i) {
    if (!(*journal)->Write(++sequence, {RecordOf(i)}).ok()) std::abort();
  });
  constexpr int kPersists = 20'000;
  const auto start = Clock::now();
  {
    JournalWriter writer(*std::move(journal), {.persisted = [](uint64_t, bool) {},
                                               .failed = [](absl::Status) { std::abort(); }});
    for (int i = 0; i < kPersists; ++i) {
      writer.Write({.sequence = ++sequence, .records = {RecordOf(i)}});
    }
  }
  std::printf("%-34s %8.0f a second\n", "JournalWriter, batched", kPersists / SecondsSince(start));
  return 0;
}

}  // namespace
}  // namespace remesh::server

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: journal_benchmark FOLDER\n");
    return 2;
  }
  std::filesystem::create_directories(argv[1]);
  return remesh::server::Run(argv[1]);
}
