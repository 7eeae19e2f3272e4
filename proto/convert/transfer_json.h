// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "google/protobuf/message.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::proto {

// JSON of a message that holds a plan, for writing its transfers one by one: a full plan may have
// more transfers than memory holds.
//
//   const JsonAroundTransfers json = CutAtTransfers(response);
//   json.before; AppendTransfer(first, /*is_first=*/true, text); ...; json.after
//
// writes the same as ToJson() of the message with all transfers in it, except for white space.
struct JsonAroundTransfers {
  std::string before;
  std::string after;
};

// REQUIRES: `message` is or holds a v1::Plan, without transfers.
JsonAroundTransfers CutAtTransfers(const google::protobuf::Message& message);

// Appends one transfer, on a line of its own.
void AppendTransfer(const v1::Transfer& transfer, bool is_first, std::string& text);

}  // namespace remesh::proto
