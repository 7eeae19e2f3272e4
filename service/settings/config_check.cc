// SPDX-License-Identifier: Apache-2.0
#include "service/settings/config_check.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"

namespace remesh::service {
namespace {

bool IsReadable(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

absl::Status NotReadable(const std::string& field, const std::string& path) {
  return MakeError(absl::StatusCode::kNotFound,
                   absl::StrCat(field, ": not checked, as ", path, " cannot be read here"),
                   {.reason = "FILE_NOT_CHECKED", .metadata = {{"field", field}, {"value", path}}});
}

}  // namespace

void CheckReadable(const std::string& field, const std::string& path,
                   std::vector<absl::Status>& problems, absl::FunctionRef<absl::Status()> check) {
  if (path.empty()) return;
  absl::Status status = IsReadable(path) ? check() : NotReadable(field, path);
  if (!status.ok()) problems.push_back(std::move(status));
}

void CheckCertificates(const CertificateFiles& files, const CertificateFields& fields,
                       std::vector<absl::Status>& problems) {
  if (files.empty() || !CheckAllOrNone(files, fields).ok()) return;
  const std::pair<const std::string&, const std::string&> all[] = {
      {fields.ca, files.ca}, {fields.certificate, files.certificate}, {fields.key, files.key}};
  bool readable = true;
  for (const auto& [field, path] : all) {
    if (IsReadable(path)) continue;
    readable = false;
    problems.push_back(NotReadable(field, path));
  }
  if (!readable) return;
  const absl::Status status = ReadCertificates(files, fields, absl::Now()).status();
  if (!status.ok()) problems.push_back(status);
}

}  // namespace remesh::service
