// SPDX-License-Identifier: Apache-2.0
#include "server/journal/journal.h"

#include <sys/random.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/error.h"
#include "base/own_file.h"
#include "base/status_macros.h"
#include "server/controller/values/uid.h"
#include "server/journal/witness.h"
#include "service/log/log.h"

namespace remesh::server {

using service::LogWarning;

namespace {

// How many leaderships to keep. A worker that knows an older leadership takes the journal for one
// that went back.
constexpr size_t kLeadershipsMax = 10'000;

uint64_t KernelRandom() {
  uint64_t number = 0;
  REMESH_CHECK(getrandom(&number, sizeof(number), 0) == sizeof(number));
  return number;
}

std::string NewUid() { return MakeUid(KernelRandom(), KernelRandom()); }

// A cluster uid in lower case; empty stays empty.
absl::StatusOr<std::string> ParseClusterUid(const std::string& text) {
  const std::string uid = absl::AsciiStrToLower(text);
  if (uid.empty() || IsUid(uid)) return uid;
  return InvalidField("cluster_uid", text,
                      "must be a UUID such as 123e4567-e89b-42d3-a456-426614174000");
}

absl::Status CheckClusterUid(const std::string& path, const std::string& has,
                             const std::string& wanted) {
  if (wanted.empty() || wanted == has) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("journal ", path, " is of cluster ", has, ", not of cluster_uid ", wanted),
      {.reason = "CLUSTER_UID_MISMATCH",
       .metadata = {{"path", path}, {"journal_cluster_uid", has}, {"cluster_uid", wanted}}});
}

// Refuses a journal that is missing or empty but has a witness or a WAL: SQLite would take it for a
// new journal and remove the WAL.
absl::Status CheckFiles(const std::string& path, const std::string& accept_older) {
  std::error_code error;
  if (std::filesystem::file_size(path, error) > 0 && !error) return absl::OkStatus();
  HeadFile head(path + ".head");
  RETURN_IF_ERROR(CheckNoWitness(path, head.Read()));
  RETURN_IF_ERROR(CheckAcceptOlder(path, "", accept_older));
  const std::string wal = path + "-wal";
  if (std::filesystem::file_size(wal, error) == 0 || error) return absl::OkStatus();
  return MakeError(absl::StatusCode::kDataLoss,
                   absl::StrCat("journal ", path, " is not there or empty, but ", wal, " is not"),
                   {.reason = "JOURNAL_CORRUPT", .metadata = {{"path", path}, {"wal", wal}}});
}

// The contents of the journal; creates the tables of a new one.
absl::StatusOr<JournalContents> ReadOrCreate(JournalDatabase& database, const Witness& witness,
                                             const Journal::Options& options) {
  ASSIGN_OR_RETURN(std::optional<JournalContents> contents, ReadContents(database.sql()));
  if (contents) return *std::move(contents);
  RETURN_IF_ERROR(CheckNoWitness(database.path(), witness));
  RETURN_IF_ERROR(CheckAcceptOlder(database.path(), "", options.accept_older));
  const std::string& cluster = options.cluster_uid;
  const HeadRow head{.journal_uid = NewUid(), .cluster_uid = cluster.empty() ? NewUid() : cluster};
  RETURN_IF_ERROR(database.Own());
  RETURN_IF_ERROR(CreateTables(database.sql(), head));
  return JournalContents{.head = head};
}

// A server that cannot change the folder's mode, as with the volumes of a pod with fsGroup, is not
// kept from running.
void WarnOfSharedFolder(const std::string& path) {
  const std::string folder =
      std::filesystem::absolute(std::filesystem::path(path)).parent_path().string();
  const absl::Status own = CheckOwnFolder("journal_path", path, folder, Writers::kNone);
  if (!own.ok()) LogWarning("others may replace the journal's files", {{"why", own}});
}

bool IsFull(const absl::Status& status) { return absl::IsResourceExhausted(status); }

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(const std::string& path, Options options) {
  ASSIGN_OR_RETURN(options.cluster_uid, ParseClusterUid(options.cluster_uid));
  RETURN_IF_ERROR(CheckFiles(path, options.accept_older));
  WarnOfSharedFolder(path);
  ASSIGN_OR_RETURN(std::unique_ptr<JournalDatabase> database, JournalDatabase::Open(path));
  std::unique_ptr<Journal> journal(new Journal(std::move(database), std::move(options)));
  RETURN_IF_ERROR(journal->Start());
  ASSIGN_OR_RETURN(journal->files_, OpenFiles::Of(path));
  return journal;
}

Journal::Journal(std::unique_ptr<JournalDatabase> database, Options options)
    : database_(std::move(database)),
      options_(std::move(options)),
      head_file_(database_->path() + ".head"),
      ballast_(database_->path() + ".ballast") {}

Journal::~Journal() {
  // SQLite would delete the WAL of the journal that has taken this one's place.
  if (!CheckOpenFiles().ok()) database_->Disown();
}

absl::Status Journal::CheckOpenFiles() const { return files_ ? files_->Check() : absl::OkStatus(); }

absl::Status Journal::Start() {
  const std::string& path = database_->path();
  const Witness witness = head_file_.Read();
  ASSIGN_OR_RETURN(const JournalContents contents, ReadOrCreate(*database_, witness, options_));
  head_ = contents.head;
  const bool accepts = !options_.accept_older.empty();
  RETURN_IF_ERROR(CheckClusterUid(path, head_.cluster_uid, options_.cluster_uid));
  RETURN_IF_ERROR(CheckAcceptOlder(path, head_.journal_uid, options_.accept_older));
  RETURN_IF_ERROR(CheckWitness(path, contents, witness, accepts));
  if (accepts) {
    LogWarning("the journal is accepted although it may have gone back: what it lacks is lost",
               {{"path", path}, {"uid", head_.journal_uid}, {"sequence", head_.sequence}});
  }
  RETURN_IF_ERROR(database_->Own());
  RETURN_IF_ERROR(Prepare());
  RaiseFirstBallast();
  RETURN_IF_ERROR(Lead(contents.leaderships));
  past_.accepts_older = accepts;
  // The other slot may have a later position than this journal; the next start would then report
  // lost transactions.
  return accepts ? WriteHead() : absl::OkStatus();
}

absl::Status Journal::Prepare() {
  ASSIGN_OR_RETURN(write_head_, database_->sql().Prepare(kWriteHeadRow));
  ASSIGN_OR_RETURN(find_, database_->sql().Prepare("SELECT digest FROM records WHERE key = ?1"));
  ASSIGN_OR_RETURN(put_,
                   database_->sql().Prepare("INSERT OR REPLACE INTO records VALUES(?1, ?2, ?3)"));
  ASSIGN_OR_RETURN(remove_, database_->sql().Prepare("DELETE FROM records WHERE key = ?1"));
  return absl::OkStatus();
}

void Journal::RaiseFirstBallast() {
  const absl::Status status = ballast_.Raise();
  if (status.ok()) return;
  full_ = IsFull(status);
  LogWarning("no room is kept back for the journal's decisions",
             {{"path", database_->path()}, {"error", status}});
}

absl::Status Journal::Lead(const std::vector<LeadershipRow>& earlier) {
  const LeadershipRow ours{.id = absl::StrFormat("%016x%016x", KernelRandom(), KernelRandom()),
                           .first = head_.sequence + 1,
                           .started = absl::FormatTime(absl::Now(), absl::UTCTimeZone())};
  const size_t dropped =
      earlier.size() < kLeadershipsMax ? 0 : earlier.size() + 1 - kLeadershipsMax;
  HeadRow next = head_;
  next.leadership = ours.id;
  next.sequence = ours.first;
  RETURN_IF_ERROR(Commit(next, [&](RowDigest& rows) {
    for (size_t i = 0; i < dropped; ++i) rows ^= earlier[i].Digest();
    rows ^= ours.Digest();
    RETURN_IF_ERROR(RaiseVersion(database_->sql()));
    RETURN_IF_ERROR(DropLeaderships(database_->sql(), dropped));
    return AddLeadership(database_->sql(), ours);
  }));
  past_ = {.cluster_uid = head_.cluster_uid,
           .journal_uid = head_.journal_uid,
           .leadership = ours.id,
           .sequence = ours.first};
  for (size_t i = dropped; i < earlier.size(); ++i) {
    past_.ends[earlier[i].id] = i + 1 < earlier.size() ? earlier[i + 1].first : ours.first;
  }
  return absl::OkStatus();
}

absl::Status Journal::Write(uint64_t sequence, const std::vector<Record>& records) {
  REMESH_CHECK(sequence > head_.sequence);
  HeadRow next = head_;
  next.sequence = sequence;
  RETURN_IF_ERROR(Commit(next, [&](RowDigest& rows) {
    for (const Record& record : records) RETURN_IF_ERROR(WriteRecord(record, rows));
    return absl::OkStatus();
  }));
  MoveWal();
  if (full_) LookForRoom();
  return absl::OkStatus();
}

absl::Status Journal::WriteRecord(const Record& record, RowDigest& rows) {
  const SqlText key{record.key};
  RETURN_IF_ERROR(database_->sql().Run(find_.get(), {key}, [&](sqlite3_stmt* row) {
    rows ^= RowDigest::FromBytes(Database::Bytes(row, 0));
  }));
  if (!record.bytes) return database_->sql().Run(remove_.get(), {key});
  const RowDigest digest = RecordDigest(record.key, *record.bytes);
  rows ^= digest;
  const std::string bytes = digest.Bytes();
  return database_->sql().Run(put_.get(), {key, SqlBytes{*record.bytes}, SqlBytes{bytes}});
}

absl::Status Journal::Try(HeadRow next, Change change) {
  RETURN_IF_ERROR(database_->sql().Execute("BEGIN IMMEDIATE"));
  absl::Status status = change(next.rows);
  if (status.ok()) status = WriteHeadRow(database_->sql(), write_head_.get(), next);
  if (status.ok()) status = database_->sql().Execute("COMMIT");
  if (status.ok()) {
    head_ = next;
  } else {
    database_->sql().Execute("ROLLBACK").IgnoreError();  // the first error is the one to report
  }
  return status;
}

absl::Status Journal::Commit(const HeadRow& next, Change change) {
  absl::Status status = Try(next, change);
  if (IsFull(status) && DropBallast()) status = Try(next, change);
  RETURN_IF_ERROR(status);
  if (options_.committed) options_.committed();
  return WriteHead();
}

absl::Status Journal::WriteHead() {
  const JournalHead head{head_.journal_uid, head_.leadership, head_.sequence};
  const absl::Status status = head_file_.Write(head);
  return IsFull(status) && DropBallast() ? head_file_.Write(head) : status;
}

void Journal::MoveWal() {
  absl::Status status = database_->CheckpointWhenDue();
  if (IsFull(status) && DropBallast()) status = database_->CheckpointWhenDue();
  // Nothing is lost: the WAL has it, and the next write tries again.
  if (!status.ok()) LogWarning("the journal's WAL cannot be moved", {{"error", status}});
}

bool Journal::DropBallast() {
  if (!ballast_.Drop()) return false;
  full_ = true;
  LogWarning("the journal's disk is full: only decisions are written",
             {{"path", database_->path()}});
  return true;
}

bool Journal::RaiseBallast() {
  if (ballast_.Raise().ok()) return true;
  // A failure here loses nothing and is retried soon.
  absl::Status status = database_->GiveBackFreePages();
  // Keeps the WAL's room unless exactly that is lacking, because the next write may not find it
  // again.
  const int64_t lacking = ballast_.Lacking();
  if (status.ok() && lacking > 0 && lacking <= database_->WalBytes()) {
    status = database_->EmptyWal();
  }
  return status.ok() && ballast_.Raise().ok();
}

bool Journal::LookForRoom() {
  if (!full_ || !RaiseBallast()) return !full_;
  full_ = false;
  service::LogInfo("the journal's disk has room again", {{"path", database_->path()}});
  return true;
}

}  // namespace remesh::server
