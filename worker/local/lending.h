// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "remesh/v1/local.pb.h"
#include "worker/keeper/packets.h"
#include "worker/store/buffer_store.h"

namespace remesh::worker {

// A loan of the memory for all shards of an assignment.
struct Loan {
  v1::LendRequest request;
  uid_t lender = kUnknownUser;
  std::vector<int> device_of = {};                      // by memory: a local device
  std::vector<std::shared_ptr<const Fd>> handles = {};  // by memory; null: an allocation by IPC
  std::shared_ptr<const Lease> lease = nullptr;         // see LentShards
  LentShards lent = {};  // `mapped` is null until the caller makes it for OpenLoan()
};

// Checks everything about a loan of `lender` that does not require opening the memory. `request`
// must place every shard exactly once. The call uses up the request's tokens. Errors:
// INVALID_ARGUMENT naming the field ("shards[3].offset", "memories[0].token", "lease");
// PERMISSION_DENIED (LEASE_OF_ANOTHER_USER).
absl::StatusOr<Loan> CheckLoan(const v1::LendRequest& request, uid_t lender,
                               const v1::Assignment& assignment, const ShardPlaces& places,
                               BufferStore& store);

// Opens the memory into `loan.lent`, which can take milliseconds for each of thousands of
// allocations. Runs on any thread. An error leaves nothing open: INVALID_ARGUMENT naming the field,
// or CANCELLED if `cancelled` becomes true.
absl::Status OpenLoan(Loan& loan, DeviceSegments* segments, const std::atomic<bool>& cancelled);

// INVALID_ARGUMENT naming "lease" if the loan's lease has ended.
absl::Status CheckLease(const Loan& loan);

}  // namespace remesh::worker
