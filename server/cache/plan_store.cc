// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_store.h"

#include <zstd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/codec/plan_bytes.h"
#include "service/log/log.h"

namespace remesh::server {

using service::LogWarning;

namespace {

constexpr int kLevel = 3;
constexpr uint64_t kRatioMax = 4096;  // a row that claims more is damaged

std::string Compressed(const std::string& bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size =
      ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), kLevel);
  packed.resize(ZSTD_isError(size) ? 0 : size);  // fails only for lack of memory
  return packed;
}

absl::StatusOr<std::string> Decompressed(const std::string& packed) {
  const uint64_t size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR ||
      size / kRatioMax > packed.size()) {
    return absl::DataLossError("no compressed bytes");
  }
  std::string bytes(size, '\0');
  const size_t got = ZSTD_decompress(bytes.data(), bytes.size(), packed.data(), packed.size());
  if (ZSTD_isError(got) || got != size) return absl::DataLossError("cannot be decompressed");
  return bytes;
}

absl::StatusOr<CachedPlan> Unpacked(const PlanFile::Row& row, const std::string& fingerprint) {
  ASSIGN_OR_RETURN(const std::string bytes, Decompressed(row.bytes));
  ASSIGN_OR_RETURN(planner::AnsweredRequest answered, planner::DecodePlan(bytes));
  if (answered.request.fingerprint != fingerprint) {
    return absl::DataLossError("answers another request");
  }
  return CachedPlan{.request = std::move(answered.request),
                    .plan = std::move(answered.plan),
                    .compute_seconds = row.compute_seconds,
                    .digest = planner::DigestOfPlanBytes(bytes)};
}

// Renames the file and the files that SQLite keeps beside it: a log must not be replayed into
// another file.
void RenameToCorrupt(const std::string& path) {
  std::error_code ignored;
  for (const char* suffix : {"-wal", "-shm", ""}) {
    std::filesystem::rename(path + suffix, path + ".corrupt" + suffix, ignored);
  }
}

absl::StatusOr<std::unique_ptr<PlanFile>> OpenOrBegin(const std::string& path, int64_t& corrupt) {
  absl::StatusOr<std::unique_ptr<PlanFile>> file = PlanFile::Open(path);
  if (!absl::IsDataLoss(file.status())) return file;
  ++corrupt;
  LogWarning("plans on disk are set aside", {{"path", path}, {"error", file.status()}});
  RenameToCorrupt(path);
  return PlanFile::Open(path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PlanStore>> PlanStore::Open(Options options) {
  int64_t corrupt = 0;
  ASSIGN_OR_RETURN(std::unique_ptr<PlanFile> file, OpenOrBegin(options.path, corrupt));
  std::unique_ptr<PlanStore> store(new PlanStore(std::move(options), std::move(file)));
  absl::MutexLock lock(&store->mutex_);
  store->stats_.evictions.corrupt += corrupt;
  return store;
}

PlanStore::PlanStore(Options options, std::unique_ptr<PlanFile> file)
    : options_(std::move(options)), file_(std::move(file)) {
  // Trims what has become too old.
  Post([](PlanFile&, EvictedNames&) { return absl::OkStatus(); });
}

template <typename T>
T PlanStore::Read(absl::FunctionRef<absl::StatusOr<T>(PlanFile&)> read) {
  absl::MutexLock lock(&file_mutex_);
  if (file_ == nullptr) return T();
  {
    absl::MutexLock stats_lock(&mutex_);
    ++stats_.reads;
  }
  absl::StatusOr<T> answer = read(*file_);
  if (answer.ok()) return *std::move(answer);
  OnError(answer.status());
  return T();
}

std::optional<CachedPlan> PlanStore::Find(const planner::CanonicalRequest& request) {
  using Row = std::optional<PlanFile::Row>;
  const std::string& fingerprint = request.fingerprint;
  const Row row = Read<Row>([&](PlanFile& file) { return file.Read(fingerprint); });
  absl::StatusOr<CachedPlan> plan = absl::NotFoundError("");
  if (row.has_value()) plan = Unpacked(*row, fingerprint);
  {
    absl::MutexLock lock(&mutex_);
    ++(plan.ok() ? stats_.hits : stats_.misses);
  }
  if (plan.ok()) {
    Post([fingerprint, now = options_.now()](PlanFile& file, EvictedNames&) {
      return file.Touch(fingerprint, now);
    });
    return *std::move(plan);
  }
  if (!row.has_value()) return std::nullopt;
  // From another release: the plan is computed again, which replaces it.
  if (absl::IsFailedPrecondition(plan.status())) return std::nullopt;
  const std::string why(plan.status().message());
  LogWarning("a plan on disk is set aside", {{"fingerprint", fingerprint}, {"error", why}});
  Post([fingerprint, why](PlanFile& file, EvictedNames& evicted) {
    return file.SetAside(fingerprint, why, evicted);
  });
  absl::MutexLock lock(&mutex_);
  stats_.evictions.Count(EvictionCause::kCorrupt);
  return std::nullopt;
}

std::optional<PlanFile::Name> PlanStore::FindName(const std::string& name) {
  using Row = std::optional<PlanFile::Name>;
  Row row = Read<Row>([&](PlanFile& file) { return file.ReadName(name); });
  if (!row.has_value()) return row;
  absl::StatusOr<std::string> spec = Decompressed(row->spec);
  if (spec.ok()) {
    row->spec = *std::move(spec);
    return row;
  }
  LogWarning("a name on disk is dropped", {{"plan", name}, {"error", spec.status()}});
  Post([name](PlanFile& file, EvictedNames& evicted) {
    evicted.push_back({.name = name, .about = "", .cause = EvictionCause::kCorrupt});
    return file.RemoveName(name).status();
  });
  absl::MutexLock lock(&mutex_);
  stats_.evictions.Count(EvictionCause::kCorrupt);
  return std::nullopt;
}

std::vector<PlanFile::Name> PlanStore::PinnedNames() {
  using Rows = std::vector<PlanFile::Name>;
  Rows sound;
  for (const PlanFile::Name& name : Read<Rows>([](PlanFile& file) { return file.PinnedNames(); })) {
    if (auto whole = FindName(name.name)) sound.push_back(*std::move(whole));
  }
  return sound;
}

std::vector<PlanFile::Name> PlanStore::NamesAfter(absl::Time created, const std::string& name,
                                                  int64_t count) {
  using Rows = std::vector<PlanFile::Name>;
  return Read<Rows>([&](PlanFile& file) { return file.NamesAfter(created, name, count); });
}

bool PlanStore::HasRoom() {
  if (writes_.waiting() < options_.waiting_max) return true;
  absl::MutexLock lock(&mutex_);
  ++stats_.errors;
  return false;
}

void PlanStore::Store(std::shared_ptr<const CachedPlan> plan, std::optional<PlanFile::Name> name) {
  if (!HasRoom()) return;
  PostPrepared([plan = std::move(plan), name = std::move(name), now = options_.now()]() -> Write {
    PlanFile::Row row{.bytes = Compressed(planner::EncodePlan(plan->request, plan->plan)),
                      .compute_seconds = plan->compute_seconds};
    std::optional<PlanFile::Name> packed = name;
    if (packed.has_value()) packed->spec = Compressed(name->spec);
    return [fingerprint = plan->request.fingerprint, row = std::move(row),
            packed = std::move(packed), now](PlanFile& file, EvictedNames&) {
      if (row.bytes.empty()) return absl::ResourceExhaustedError("no memory to compress a plan");
      RETURN_IF_ERROR(file.Write(fingerprint, row, now));
      return packed.has_value() ? file.WriteName(*packed) : absl::OkStatus();
    };
  });
}

void PlanStore::StoreName(PlanFile::Name name) {
  if (!HasRoom()) return;
  name.spec = Compressed(name.spec);
  Post([name = std::move(name)](PlanFile& file, EvictedNames&) {
    RETURN_IF_ERROR(file.WriteName(name));
    return file.Touch(name.fingerprint, name.used);
  });
}

void PlanStore::UpdateNames(std::vector<PlanFile::Name> names) {
  Post([names = std::move(names)](PlanFile& file, EvictedNames&) {
    for (const PlanFile::Name& name : names) RETURN_IF_ERROR(file.UpdateName(name));
    return absl::OkStatus();
  });
}

bool PlanStore::Has(const std::string& fingerprint) {
  return Read<bool>([&](PlanFile& file) { return file.Has(fingerprint); });
}

absl::Status PlanStore::Pin(PlanFile::Name name) {
  name.spec = Compressed(name.spec);
  bool written = false;
  RETURN_IF_ERROR(PostAndWait([&](PlanFile& file, EvictedNames&) {
    written = true;
    return file.WriteName(name);
  }));
  if (written) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kUnavailable,
      absl::StrCat("plans in ", options_.path, " cannot be written: pins would not last"),
      {.reason = "PIN_NOT_DURABLE", .metadata = {{"path", options_.path}}});
}

absl::Status PlanStore::Unpin(const std::string& name) {
  return PostAndWait([&](PlanFile& file, EvictedNames&) { return file.SetPinned(name, false); });
}

absl::StatusOr<bool> PlanStore::RemoveName(const std::string& name) {
  bool removed = false;
  RETURN_IF_ERROR(PostAndWait([&](PlanFile& file, EvictedNames&) -> absl::Status {
    ASSIGN_OR_RETURN(removed, file.RemoveName(name));
    return absl::OkStatus();
  }));
  if (removed) {
    absl::MutexLock lock(&mutex_);
    ++stats_.evictions.deleted;
  }
  return removed;
}

absl::StatusOr<int64_t> PlanStore::RemoveAll(std::vector<std::string> kept) {
  int64_t removed = 0;
  RETURN_IF_ERROR(PostAndWait([&](PlanFile& file, EvictedNames& evicted) -> absl::Status {
    ASSIGN_OR_RETURN(EvictedNames flushed, file.RemoveAll(kept));
    removed = static_cast<int64_t>(flushed.size());
    evicted = std::move(flushed);
    return absl::OkStatus();
  }));
  return removed;
}

void PlanStore::SetOnEvicted(OnEvicted on_evicted) {
  absl::MutexLock lock(&evicted_mutex_);
  on_evicted_ = std::move(on_evicted);
}

PlanStore::Stats PlanStore::stats() {
  absl::MutexLock lock(&mutex_);
  return stats_;
}

void PlanStore::Post(Write write) {
  PostPrepared([write = std::move(write)]() mutable { return std::move(write); });
}

absl::Status PlanStore::PostAndWait(Write write) {
  // Notifies the caller even if the write is dropped.
  struct Outcome {
    absl::Status status;
    absl::Notification done;
  };
  struct Done {
    Outcome* outcome;
    explicit Done(Outcome* o) : outcome(o) {}
    Done(Done&& other) noexcept : outcome(std::exchange(other.outcome, nullptr)) {}
    ~Done() {
      if (outcome != nullptr) outcome->done.Notify();
    }
  };
  Outcome outcome;
  Post([&outcome, &write, done = Done(&outcome)](PlanFile& file, EvictedNames& evicted) {
    outcome.status = write(file, evicted);
    return outcome.status;
  });
  outcome.done.WaitForNotification();
  return outcome.status;
}

void PlanStore::PostPrepared(Prepare prepare) {
  writes_.Post([this, prepare = std::move(prepare)]() mutable { Perform(prepare()); });
}

void PlanStore::Perform(Write write) {
  EvictedNames evicted;
  {
    absl::MutexLock lock(&file_mutex_);
    if (file_ == nullptr) return;
    if (const absl::Status status = PerformLocked(write, evicted); !status.ok()) OnError(status);
  }
  if (evicted.empty()) return;
  Count(evicted);
  absl::MutexLock lock(&evicted_mutex_);
  if (on_evicted_) on_evicted_(evicted);
}

absl::Status PlanStore::PerformLocked(Write& write, EvictedNames& evicted) {
  RETURN_IF_ERROR(write(*file_, evicted));
  ASSIGN_OR_RETURN(EvictedNames trimmed, file_->Trim(options_.limits, options_.now()));
  evicted.insert(evicted.end(), trimmed.begin(), trimmed.end());
  ASSIGN_OR_RETURN(const PlanFile::Size held, file_->size());
  absl::MutexLock lock(&mutex_);
  stats_.held = held;
  return absl::OkStatus();
}

void PlanStore::Count(const EvictedNames& evicted) {
  absl::MutexLock lock(&mutex_);
  for (const Evicted& one : evicted) {
    // Those were counted when they were found.
    if (one.cause != EvictionCause::kCorrupt) stats_.evictions.Count(one.cause);
  }
}

void PlanStore::OnError(const absl::Status& status) {
  // An error of the disk repeats for every plan until the disk is repaired: log it once.
  const absl::Time now = options_.now();
  if (now - last_error_ >= kBetweenEpisodes || status.code() != last_code_) {
    LogWarning("plans on disk", {{"error", status}});
  }
  last_error_ = now;
  last_code_ = status.code();
  int64_t corrupt = 0;
  if (absl::IsDataLoss(status)) {
    file_ = nullptr;
    RenameToCorrupt(options_.path);
    ++corrupt;
    absl::StatusOr<std::unique_ptr<PlanFile>> file = OpenOrBegin(options_.path, corrupt);
    if (file.ok()) file_ = *std::move(file);
    if (!file.ok()) LogWarning("plans are kept in memory only", {{"error", file.status()}});
  }
  absl::MutexLock lock(&mutex_);
  ++stats_.errors;
  stats_.evictions.corrupt += corrupt;
}

}  // namespace remesh::server
