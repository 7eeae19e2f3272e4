// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "google/protobuf/message.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::proto {

// JSON of a message with a plan whose transfers come one by one: a plan in full may have more of
// them than memory holds.
//
//   const JsonAroundTransfers json = CutAtTransfers(response);
//   json.before; AppendTransfer(first, /*is_first=*/true, text); ...; json.after
//
// is what ToJson() writes of the message with all transfers in it, white space aside.
struct JsonAroundTransfers {
  std::string before;
  std::string after;
};

// REQUIRES: `message` is a v1::Plan or holds one, without transfers.
JsonAroundTransfers CutAtTransfers(const google::protobuf::Message& message);

// Appends one transfer, on a line of its own.
void AppendTransfer(const v1::Transfer& transfer, bool is_first, std::string& text);

}  // namespace remesh::proto
