// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "service/certificates.h"

namespace remesh::service {

// Parts of a CheckSettings (read_settings.h): each adds what it finds to `problems`.

// What `check` says of the file, or NOT_FOUND when this process cannot read it. Nothing without a
// path.
void CheckReadable(const std::string& field, const std::string& path,
                   std::vector<absl::Status>& problems, absl::FunctionRef<absl::Status()> check);

// What ReadCertificates() says now, or NOT_FOUND for each file that cannot be read. Nothing unless
// all three are set.
void CheckCertificates(const CertificateFiles& files, const CertificateFields& fields,
                       std::vector<absl::Status>& problems);

}  // namespace remesh::service
