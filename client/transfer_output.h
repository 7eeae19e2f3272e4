// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/output.h"
#include "google/protobuf/message.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::client {

// Calls its argument with every transfer of a plan as it arrives.
using ForEachTransfer =
    absl::FunctionRef<absl::Status(absl::FunctionRef<void(const v1::Transfer&)>)>;

// These write a plan in full to stdout without holding its transfers in memory. OUTPUT_NOT_WRITTEN
// once stdout takes no more.

// `message`: a plan without transfers, or a message that contains one.
absl::Status PrintJsonWithTransfers(const google::protobuf::Message& message,
                                    ForEachTransfer for_each);
// INVALID_ARGUMENT unless `format` is a table or JSON, the only ones that can be written piece by
// piece.
absl::Status CheckFormatOfTransfers(OutputFormat format);
// Columns are as wide as the first rows need.
absl::Status PrintTransferTable(ForEachTransfer for_each);

}  // namespace remesh::client
