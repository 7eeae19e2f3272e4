// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/server/flipped_journal.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/journal/journal.h"

namespace remesh::server {
namespace {

using Records = std::map<std::string, std::string>;
using Files = std::map<std::string, std::string>;  // by what follows PATH

constexpr const char* kSuffixes[] = {"", "-wal", ".head"};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A journal in a folder of its own, in memory where there is some to be had.
class JournalFolder {
 public:
  JournalFolder() {
    const std::filesystem::path memory = "/dev/shm";
    const bool in_memory = access(memory.c_str(), W_OK) == 0;
    const std::filesystem::path parent =
        in_memory ? memory : std::filesystem::temp_directory_path();
    std::string pattern = (parent / "remesh-simulation-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    path_ = (folder_ / "journal.db").string();
  }
  ~JournalFolder() { std::filesystem::remove_all(folder_); }

  const std::string& path() const { return path_; }
  absl::StatusOr<std::unique_ptr<Journal>> Open() const { return Journal::Open(path_, {}); }
  Files Take() const {
    Files files;
    for (const char* suffix : kSuffixes) {
      if (std::string bytes = ReadFile(path_ + suffix); !bytes.empty()) files[suffix] = bytes;
    }
    return files;
  }
  void Put(const Files& files) const {
    for (const char* suffix : kSuffixes) std::filesystem::remove(path_ + suffix);
    for (const auto& [suffix, bytes] : files) {
      std::ofstream(path_ + suffix, std::ios::binary) << bytes;
    }
  }

 private:
  std::filesystem::path folder_;
  std::string path_;
};

// All records, once in an older version, which must never be read again.
absl::Status Write(const Records& records, uint64_t sequence, Journal& journal) {
  constexpr uint64_t kChunks = 5;
  std::vector<std::vector<Record>> chunks(kChunks);
  for (const auto& [key, bytes] : records) {
    chunks[0].push_back({key, absl::StrCat(bytes, " of older times")});
    chunks[1 + chunks[0].size() % (kChunks - 1)].push_back({key, bytes});
  }
  uint64_t next = sequence - kChunks;
  absl::Status status;
  for (const std::vector<Record>& chunk : chunks) {
    if (status.ok()) status = journal.Write(++next, chunk);
  }
  return status;
}

// Any bit of all of them.
Files WithFlippedBit(Files files, std::mt19937_64& random) {
  size_t bytes = 0;
  for (const auto& [suffix, content] : files) bytes += content.size();
  size_t at = random() % bytes;
  auto file = files.begin();
  for (; at >= file->second.size(); ++file) at -= file->second.size();
  file->second[at] ^= static_cast<char>(1 << random() % 8);
  return files;
}

// What a refusal must say, and leave as it is.
std::string WrongRefusal(const absl::Status& status, const JournalFolder& folder,
                         const Files& files) {
  const bool named = absl::StartsWith(GetErrorInfo(status).reason, "JOURNAL_") &&
                     absl::StrContains(status.message(), folder.path());
  if (!named) return absl::StrCat("a flipped bit is refused without its name: ", status.ToString());
  if (folder.Take() != files) return "a journal that was refused has changed";
  return "";
}

// Whether the journal is what `past` led and wrote up to `sequence`; its records go to `found`.
std::string WrongContent(Journal& journal, const JournalPast& past, uint64_t sequence,
                         const Records& records, Records& found) {
  absl::StatusOr<Records> read = journal.ReadAll();
  if (!read.ok()) return absl::StrCat("opened, but not readable: ", read.status().ToString());
  found = *std::move(read);
  const JournalPast& now = journal.past();
  const auto end = now.ends.find(past.leadership);
  const bool same_position = now.journal_uid == past.journal_uid &&
                             now.cluster_uid == past.cluster_uid && now.sequence == sequence + 1 &&
                             end != now.ends.end() && end->second == sequence + 1;
  if (!same_position) return absl::StrCat("another position is read, ", now.sequence);
  return found == records ? "" : "other records are read";
}

// The files of a journal that ended, and what it said of itself.
struct Ended {
  Files files;
  JournalPast past;
};

absl::StatusOr<Ended> WriteAndEnd(const Records& records, uint64_t sequence, bool crashes,
                                  const JournalFolder& folder) {
  ASSIGN_OR_RETURN(std::unique_ptr<Journal> journal, folder.Open());
  RETURN_IF_ERROR(Write(records, sequence, *journal));
  Ended ended{.files = folder.Take(), .past = journal->past()};
  journal = nullptr;
  if (!crashes) ended.files = folder.Take();
  return ended;
}

}  // namespace

FlippedJournal ReopenFlipped(const Records& records, uint64_t sequence, uint64_t choice) {
  std::mt19937_64 random(choice);
  const JournalFolder folder;
  FlippedJournal result{.refused = false, .records = records, .wrong = ""};
  const bool crashes = random() % 2 == 0;
  const absl::StatusOr<Ended> ended = WriteAndEnd(records, sequence, crashes, folder);
  if (!ended.ok()) {
    result.wrong = ended.status().ToString();
    return result;
  }
  const Files flipped = WithFlippedBit(ended->files, random);
  folder.Put(flipped);
  absl::StatusOr<std::unique_ptr<Journal>> journal = folder.Open();
  result.refused = !journal.ok();
  if (result.refused) {
    result.wrong = WrongRefusal(journal.status(), folder, flipped);
    folder.Put(ended->files);
    journal = folder.Open();
  }
  if (!result.wrong.empty()) return result;
  result.wrong = journal.ok()
                     ? WrongContent(**journal, ended->past, sequence, records, result.records)
                     : absl::StrCat("refused as it was: ", journal.status().ToString());
  return result;
}

}  // namespace remesh::server
