// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/connection.h"
#include "client/output.h"
#include "remesh/v1/local.grpc.pb.h"
#include "remesh/v1/state.pb.h"

namespace remesh::client {

// Reads the refusal of a worker that does not know a state (STATE_NOT_FOUND) or has nothing of it
// (GENERATION_NOT_FOUND). OK if the server knows
// the state and its layout has nothing of these arrays (none named: all) on the worker's host; else
// the refusal, or the error of the server: a misspelt name is never taken for a state that is
// elsewhere.
absl::Status CheckNothingHere(const absl::Status& refusal, const Endpoint& worker,
                              v1::LocalService::Stub& local, const Endpoint& server,
                              const std::string& state, const std::vector<std::string>& arrays);

// Prints the answer of `put` and `get` on a host that has no shard of the state: `empty`, or a line
// that says so.
void PrintNothingHere(OutputFormat format, const google::protobuf::Message& empty,
                      const std::string& state);

}  // namespace remesh::client
