// SPDX-License-Identifier: Apache-2.0
#include "server/planning/plan_store.h"

#include <zstd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/plan_bytes.h"
#include "service/log.h"

namespace remesh {
namespace {

constexpr int kLevel = 3;
constexpr uint64_t kRatioMax = 4096;  // of sound rows; what claims more is damaged

std::string Compressed(const std::string& bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size =
      ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), kLevel);
  packed.resize(ZSTD_isError(size) ? 0 : size);  // fails for want of memory only
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
  ASSIGN_OR_RETURN(AnsweredRequest answered, DecodePlan(bytes));
  if (answered.request.fingerprint != fingerprint) {
    return absl::DataLossError("answers another request");
  }
  return CachedPlan{.request = std::move(answered.request),
                    .plan = std::move(answered.plan),
                    .compute_seconds = row.compute_seconds};
}

// With what SQLite keeps beside it: a log must not be replayed into another file.
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
  store->stats_.corrupt += corrupt;
  return store;
}

PlanStore::PlanStore(Options options, std::unique_ptr<PlanFile> file)
    : options_(std::move(options)), file_(std::move(file)) {
  stats_.bytes_max = options_.limits.bytes_max;
  Post([](PlanFile&) { return absl::OkStatus(); });  // trims what has become too old
  thread_ = std::thread([this] { Run(); });
}

PlanStore::~PlanStore() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

std::optional<CachedPlan> PlanStore::Find(const CanonicalRequest& request) {
  const std::string& fingerprint = request.fingerprint;
  std::optional<PlanFile::Row> row;
  {
    absl::MutexLock lock(&file_mutex_);
    if (file_ == nullptr) return std::nullopt;
    absl::StatusOr<std::optional<PlanFile::Row>> read = file_->Read(fingerprint);
    if (read.ok()) row = *std::move(read);
    if (!read.ok()) OnError(read.status());
  }
  absl::StatusOr<CachedPlan> plan = absl::NotFoundError("");
  if (row.has_value()) plan = Unpacked(*row, fingerprint);
  {
    absl::MutexLock lock(&mutex_);
    ++(plan.ok() ? stats_.hits : stats_.misses);
    if (row.has_value() && !plan.ok()) ++stats_.corrupt;
  }
  if (plan.ok()) {
    Post([fingerprint, now = options_.now()](PlanFile& f) { return f.Touch(fingerprint, now); });
    return *std::move(plan);
  }
  if (!row.has_value()) return std::nullopt;
  const std::string why(plan.status().message());
  LogWarning("a plan on disk is set aside", {{"fingerprint", fingerprint}, {"error", why}});
  Post([fingerprint, why](PlanFile& file) { return file.SetAside(fingerprint, why); });
  return std::nullopt;
}

void PlanStore::Store(std::shared_ptr<const CachedPlan> plan) {
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.size() >= options_.waiting_max) {
      ++stats_.errors;
      return;
    }
  }
  PostPrepared([plan = std::move(plan), now = options_.now()]() -> Write {
    PlanFile::Row row{.bytes = Compressed(EncodePlan(plan->request, plan->plan)),
                      .compute_seconds = plan->compute_seconds};
    return [fingerprint = plan->request.fingerprint, row = std::move(row), now](PlanFile& file) {
      if (row.bytes.empty()) return absl::ResourceExhaustedError("no memory to compress a plan");
      return file.Write(fingerprint, row, now);
    };
  });
}

void PlanStore::Remove(const std::string& fingerprint) {
  Post([fingerprint](PlanFile& file) { return file.Remove(fingerprint); });
}

void PlanStore::RemoveAll() {
  Post([](PlanFile& file) { return file.RemoveAll(); });
}

void PlanStore::Pin(PlanFile::Pin pin) {
  Post([pin = std::move(pin)](PlanFile& file) {
    PlanFile::Pin packed = pin;
    packed.spec = Compressed(pin.spec);
    return file.WritePin(packed);
  });
}

void PlanStore::Unpin(const std::string& name) {
  Post([name](PlanFile& file) { return file.RemovePin(name); });
}

std::vector<PlanFile::Pin> PlanStore::Pins() {
  std::vector<PlanFile::Pin> sound;
  absl::MutexLock lock(&file_mutex_);
  if (file_ == nullptr) return sound;
  absl::StatusOr<std::vector<PlanFile::Pin>> pins = file_->Pins();
  if (!pins.ok()) {
    OnError(pins.status());
    return sound;
  }
  for (PlanFile::Pin& pin : *pins) {
    absl::StatusOr<std::string> spec = Decompressed(pin.spec);
    if (spec.ok()) {
      sound.push_back({pin.name, pin.fingerprint, *std::move(spec)});
      continue;
    }
    LogWarning("a pin on disk is dropped", {{"plan", pin.name}, {"error", spec.status()}});
    Unpin(pin.name);
    absl::MutexLock stats_lock(&mutex_);
    ++stats_.corrupt;
  }
  return sound;
}

PlanStore::Stats PlanStore::stats() {
  absl::MutexLock lock(&mutex_);
  return stats_;
}

void PlanStore::Flush() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](PlanStore* store) ABSL_EXCLUSIVE_LOCKS_REQUIRED(store->mutex_) {
        return store->waiting_.empty() && !store->writing_;
      },
      this));
}

void PlanStore::Post(Write write) {
  PostPrepared([write = std::move(write)]() mutable { return std::move(write); });
}

void PlanStore::PostPrepared(Prepare prepare) {
  absl::MutexLock lock(&mutex_);
  waiting_.push_back(std::move(prepare));
}

void PlanStore::Run() {
  while (true) {
    Prepare prepare;
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      mutex_.Await(absl::Condition(
          +[](PlanStore* store) ABSL_EXCLUSIVE_LOCKS_REQUIRED(store->mutex_) {
            return store->stopping_ || !store->waiting_.empty();
          },
          this));
      if (waiting_.empty()) return;
      prepare = std::move(waiting_.front());
      waiting_.pop_front();
      writing_ = true;
    }
    Write write = prepare();
    Perform(write);
  }
}

void PlanStore::Perform(Write& write) {
  absl::MutexLock lock(&file_mutex_);
  if (file_ == nullptr) return;
  if (const absl::Status status = write(*file_); !status.ok()) return OnError(status);
  const absl::StatusOr<int64_t> evicted = file_->Trim(options_.limits, options_.now());
  if (!evicted.ok()) return OnError(evicted.status());
  UpdateSize();
  absl::MutexLock stats_lock(&mutex_);
  stats_.evictions += *evicted;
}

void PlanStore::UpdateSize() {
  const absl::StatusOr<PlanFile::Size> size = file_->size();
  if (!size.ok()) return OnError(size.status());
  absl::MutexLock lock(&mutex_);
  stats_.entries = size->entries;
  stats_.bytes = size->bytes;
}

void PlanStore::OnError(const absl::Status& status) {
  LogWarning("plans on disk", {{"error", status}});
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
  stats_.corrupt += corrupt;
}

}  // namespace remesh
