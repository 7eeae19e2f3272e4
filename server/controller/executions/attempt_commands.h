// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "remesh/v1/reshard.pb.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/executions/execution_spec.h"
#include "server/controller/executions/peer_table.h"

namespace remesh::server {

// Commands to the workers of an execution, without epoch.

// What all Prepares of an attempt are made of. Immutable.
struct Preparation {
  ExecutionSpec spec;
  v1::Execution resource;  // without hosts
  PeerTable peers;         // the participants, in their order
};
// For participant `host`. Any thread may call this.
v1::AttachResponse MakePrepare(const Preparation& preparation, int host);
// Bytes of memory that the Prepare of participant `host` takes, roughly.
size_t PrepareBytes(const Preparation& preparation, int host);
v1::AttachResponse MakeGrant(const v1::AttemptId& attempt, int32_t until);
v1::AttachResponse MakeVerify(const v1::AttemptId& attempt);
v1::AttachResponse MakeCommit(const v1::AttemptId& attempt, const v1::Execution& resource);
// Carries the execution's error, so that workers can add what they know of it.
v1::AttachResponse MakeAbort(const v1::AttemptId& attempt, const v1::Execution& resource);

}  // namespace remesh::server
