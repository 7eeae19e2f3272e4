// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/admin_service.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/grpc/chunk_stream.h"
#include "server/grpc/fill_stream.h"
#include "service/log.h"
#include "service/sha256.h"

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

absl::Status StreamBackup(Core& core, ChunkWriter<BackupPart>& writer) {
  ASSIGN_OR_RETURN(const JournalBackup backup, core.BackUpJournal([&] { return !writer.gone(); }));
  service::Sha256 sha256;
  bool wanted = writer.Write(HeaderOf(backup));
  for (int64_t at = 0; wanted && at < backup.bytes; at += kBackupPartBytes) {
    ASSIGN_OR_RETURN(std::string bytes, ReadPart(backup, at));
    sha256.Add(bytes);
    BackupPart part;
    part.set_data(std::move(bytes));
    wanted = writer.Write(std::move(part));
  }
  BackupPart end;
  end.mutable_trailer()->set_sha256(sha256.Hex());
  if (!wanted || !writer.Write(std::move(end))) return absl::CancelledError("the caller has gone");
  service::LogInfo("the journal was backed up",
                   {{"sequence", backup.head.sequence}, {"bytes", backup.bytes}});
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::GetServer(grpc::CallbackServerContext* context,
                                                  const v1::GetServerRequest*,
                                                  v1::ServerInfo* response) {
  return AskPool(backend_, backend_.core.lookups(), context, "GetServer", "", response,
                 [this]() -> absl::StatusOr<v1::ServerInfo> { return describe_(); });
}

grpc::ServerWriteReactor<BackupPart>* AdminService::BackUpJournal(
    grpc::CallbackServerContext* context, const v1::BackUpJournalRequest*) {
  return FillStream<BackupPart>(
      backend_, backend_.core.streamers(), context, "BackUpJournal", service::Resource{},
      [this](ChunkWriter<BackupPart>& writer) { return StreamBackup(backend_.core, writer); });
}

}  // namespace remesh::server
