// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/files/new_file.h"
#include "client/watch/server_stream.h"
#include "client/yaml_output.h"
#include "proto/text/text.h"
#include "remesh/v1/admin.grpc.pb.h"
#include "service/process/sha256.h"

namespace remesh::client {
namespace {

using BackupPart = v1::BackUpJournalResponse;

// The server sends nothing while it copies and checks, which takes long for a large journal.
constexpr double kBackupSilenceSeconds = 300;

struct JournalOptions {
  Endpoint server;
  OutputFormat format = OutputFormat::kTable;
  std::string file;
  bool force = false;
};

absl::Status NotWhole(const Endpoint& server, const std::string& what) {
  return MakeError(absl::StatusCode::kDataLoss,
                   absl::StrCat(server.address, ": the backup did not arrive whole: ", what),
                   {.reason = "BACKUP_NOT_WHOLE", .metadata = {{"address", server.address}}});
}

// Receives the backup into `file`, and its header and trailer.
absl::Status Receive(const JournalOptions& options, NewFile& file, v1::JournalHeader& header,
                     v1::JournalTrailer& trailer) {
  const auto stub = v1::AdminService::NewStub(ConnectServer(options.server));
  ServerStream<BackupPart> stream(options.server, [&](grpc::ClientContext* context) {
    return stub->BackUpJournal(context, {});
  });
  service::Sha256 sha256;
  int64_t bytes = 0;
  for (BackupPart part; stream.Read(part);) {
    if (part.has_header()) header = part.header();
    if (part.has_trailer()) trailer = part.trailer();
    sha256.Add(part.data());
    bytes += std::ssize(part.data());
    RETURN_IF_ERROR(file.Write(part.data()));
  }
  RETURN_IF_ERROR(stream.End());
  if (bytes == 0 || bytes != header.file_bytes()) {
    return NotWhole(options.server,
                    absl::StrCat(bytes, " bytes of ", header.file_bytes(), " came"));
  }
  if (sha256.Hex() == trailer.sha256()) return absl::OkStatus();
  return NotWhole(options.server, "its digest differs");
}

// The header as JSON, with the values that it lacks: no message of the API has them all.
nlohmann::ordered_json BackupJson(const JournalOptions& options, const v1::JournalHeader& header,
                                  const std::string& sha256) {
  using Json = nlohmann::ordered_json;
  Json json = Json::parse(proto::ToJson(header, /*pretty=*/false));
  json["file"] = options.file;
  json["sha256"] = sha256;
  // A path may be no UTF-8.
  return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void PrintBackup(const JournalOptions& options, const v1::JournalHeader& header,
                 const std::string& sha256) {
  if (options.format == OutputFormat::kName) {
    std::cout << options.file << "\n";
  } else if (options.format == OutputFormat::kYaml) {
    std::cout << ToYaml(BackupJson(options, header, sha256));
  } else if (options.format == OutputFormat::kJson) {
    std::cout << BackupJson(options, header, sha256).dump(1) << "\n";
  } else {
    Table table({"FILE", "BYTES", "JOURNAL", "SEQUENCE", "SHA-256"}, {"CLUSTER"});
    table.AddRow({options.file, FormatBytes(header.file_bytes()), header.journal_uid(),
                  absl::StrCat(header.sequence()), sha256, header.cluster_uid()});
    std::cout << table.ToString(options.format == OutputFormat::kWide);
  }
}

absl::Status BackUp(const JournalOptions& options) {
  using Existing = NewFile::Existing;
  ASSIGN_OR_RETURN(NewFile file, NewFile::Open(options.file, options.force ? Existing::kReplace
                                                                           : Existing::kKeep));
  v1::JournalHeader header;
  v1::JournalTrailer trailer;
  RETURN_IF_ERROR(Receive(options, file, header, trailer));
  RETURN_IF_ERROR(file.Commit());
  PrintBackup(options, header, trailer.sha256());
  return absl::OkStatus();
}

}  // namespace

void AddJournal(CLI::App& app, Command& command) {
  CLI::App* journal = app.add_subcommand("journal", "The server's journal");
  journal->require_subcommand(1);
  CLI::App* sub = journal->add_subcommand(
      "backup",
      "Write the journal as it is now, checked, to a file; the server goes on while it is written");
  auto options = std::make_shared<JournalOptions>();
  options->server.timeout_seconds = kBackupSilenceSeconds;
  AddServerFlag(*sub, options->server, "Address of remesh-server, HOST:PORT")
      ->check(ServerAddress())
      ->capture_default_str();
  sub->add_option("--timeout", options->server.timeout_seconds,
                  "Longest time without a message from the server, seconds")
      ->transform(Seconds())
      ->capture_default_str();
  AddOutputFlag(*sub, options->format);
  sub->add_option("FILE", options->file, "File to write; remesh-server --check-journal reads it")
      ->required()
      ->check(FilePath());
  sub->add_flag("--force", options->force, "Replace a file that is there");
  sub->callback([&command, options] { command = [options] { return BackUp(*options); }; });
}

}  // namespace remesh::client
