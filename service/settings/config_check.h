// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "service/tls/certificates.h"

namespace remesh::service {

// Building blocks of a CheckSettings (read_settings.h): each adds the errors that it finds to
// `problems`.

// Adds what `check` returns for the file, or NOT_FOUND when this process cannot read it. Does
// nothing for an empty path.
void CheckReadable(const std::string& field, const std::string& path,
                   std::vector<absl::Status>& problems, absl::FunctionRef<absl::Status()> check);

// Adds what ReadCertificates() returns now, or NOT_FOUND for each file that cannot be read. Does
// nothing unless all three paths are set.
void CheckCertificates(const CertificateFiles& files, const CertificateFields& fields,
                       std::vector<absl::Status>& problems);

}  // namespace remesh::service
