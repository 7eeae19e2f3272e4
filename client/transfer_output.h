// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/output.h"
#include "google/protobuf/message.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::client {

// Calls its argument with every transfer of a plan, as they come.
using ForEachTransfer =
    absl::FunctionRef<absl::Status(absl::FunctionRef<void(const v1::Transfer&)>)>;

// Write a plan in full to stdout without holding its transfers. OUTPUT_NOT_WRITTEN once stdout
// takes no more.

// `message`: a plan without transfers, or what holds one.
absl::Status PrintJsonWithTransfers(const google::protobuf::Message& message,
                                    ForEachTransfer for_each);
// Only tables and JSON are written piece by piece.
absl::Status CheckFormatOfTransfers(OutputFormat format);
// Columns are as wide as the first rows need.
absl::Status PrintTransferTable(ForEachTransfer for_each);

}  // namespace remesh::client
