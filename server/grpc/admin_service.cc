// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/admin_service.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/grpc/fill_stream.h"
#include "service/log/log.h"
#include "service/process/sha256.h"

namespace remesh::server {
namespace {

using BackupPart = v1::BackUpJournalResponse;

constexpr int64_t kBackupPartBytes = int64_t{1} << 20;

BackupPart HeaderOf(const JournalBackup& backup) {
  BackupPart part;
  v1::JournalHeader& header = *part.mutable_header();
  header.set_journal_uid(backup.head.journal_uid);
  header.set_cluster_uid(backup.head.cluster_uid);
  header.set_sequence(backup.head.sequence);
  header.set_file_bytes(backup.bytes);
  return part;
}

absl::StatusOr<std::string> ReadPart(const JournalBackup& backup, int64_t at) {
  std::string bytes(static_cast<size_t>(std::min(kBackupPartBytes, backup.bytes - at)), '\0');
  const ssize_t read = pread(backup.file.get(), bytes.data(), bytes.size(), at);
  if (read == static_cast<ssize_t>(bytes.size())) return bytes;
  const std::string why = read < 0 ? std::strerror(errno) : "it became shorter";
  return MakeError(absl::StatusCode::kUnavailable,
                   absl::StrCat("the journal's copy cannot be read: ", why),
                   {.reason = "BACKUP_IO", .metadata = {{"error", why}}});
}

// A backup of the journal in parts. The first Emit() takes the backup, and this object keeps it.
class BackupPieces {
 public:
  BackupPieces(Core& core, const grpc::CallbackServerContext& context)
      : core_(core), context_(context) {}

  absl::Status Emit(ChunkStream<BackupPart>::Emit emit) {
    if (!backup_) {
      ASSIGN_OR_RETURN(backup_, core_.BackUpJournal([this] { return !HasGone(context_); }));
      if (!emit(HeaderOf(*backup_))) return absl::OkStatus();
    }
    while (at_ < backup_->bytes) {
      ASSIGN_OR_RETURN(std::string bytes, ReadPart(*backup_, at_));
      at_ += static_cast<int64_t>(bytes.size());
      sha256_.Add(bytes);
      BackupPart part;
      part.set_data(std::move(bytes));
      if (!emit(std::move(part))) return absl::OkStatus();
    }
    if (!std::exchange(ended_, true)) EmitTrailer(emit);
    return absl::OkStatus();
  }

 private:
  void EmitTrailer(ChunkStream<BackupPart>::Emit emit) {
    BackupPart end;
    end.mutable_trailer()->set_sha256(sha256_.Hex());
    emit(std::move(end));
    service::LogInfo("the journal was backed up",
                     {{"sequence", backup_->head.sequence}, {"bytes", backup_->bytes}});
  }

  Core& core_;
  const grpc::CallbackServerContext& context_;
  std::optional<JournalBackup> backup_;
  service::Sha256 sha256_;
  int64_t at_ = 0;  // the number of emitted bytes
  bool ended_ = false;
};

}  // namespace

grpc::ServerUnaryReactor* AdminService::GetServer(grpc::CallbackServerContext* context,
                                                  const v1::GetServerRequest*,
                                                  v1::ServerInfo* response) {
  return AskPool(backend_, backend_.core.lookups(), context, "GetServer", "", response,
                 [this]() -> absl::StatusOr<v1::ServerInfo> { return describe_(); });
}

grpc::ServerWriteReactor<BackupPart>* AdminService::BackUpJournal(
    grpc::CallbackServerContext* context, const v1::BackUpJournalRequest*) {
  auto pieces = std::make_unique<BackupPieces>(backend_.core, *context);
  return FillStream<BackupPart>(backend_, backend_.core.streamers(), context, "BackUpJournal",
                                service::Resource{},
                                [pieces = std::move(pieces)](ChunkStream<BackupPart>::Emit emit) {
                                  return pieces->Emit(emit);
                                });
}

}  // namespace remesh::server
