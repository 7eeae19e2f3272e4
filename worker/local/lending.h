// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
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
  LoanSize size = {};
  LentShards lent = {};  // `mapped` is null until the caller makes it for OpenSome()
  absl::Status failed = absl::OkStatus();  // why OpenSome() closes what it has opened
};

// The sizes of all loans whose memory is being opened, is open or is being closed: of everybody's,
// and of those of one user.
struct LoanTotals {
  LoanSize all;
  LoanSize of_user;
};

// Limits on these sums. Each memory is a mapping, of which the kernel allows a process 65,530
// (vm.max_map_count). One user gets a quarter, so that no user can have all.
inline constexpr int64_t kLentMemoriesOfUser = 4096;
inline constexpr int64_t kLentMemoriesMax = 4 * kLentMemoriesOfUser;

// The memory of the machine, swap included. Longer memory files are mostly holes. One user may lend
// that much, in all loans together, and all users four times that much. This bounds what loans take
// of the worker's addresses (128 TiB): a worker without addresses ends. It does not bound pages:
// BufferStore::Lend() checks those.
int64_t MachineBytes();

// Checks everything about a loan of `lender` that does not require opening the memory. `request`
// must place every shard exactly once. `open` leaves this loan out. The call uses up the request's
// tokens, unless it returns an error of another field. Errors: INVALID_ARGUMENT naming the field
// ("shards[3].offset", "memories[0].token", "lease"); PERMISSION_DENIED (LEASE_OF_ANOTHER_USER);
// RESOURCE_EXHAUSTED (TOO_MUCH_LENT) naming the field.
absl::StatusOr<Loan> CheckLoan(const v1::LendRequest& request, uid_t lender,
                               const v1::Assignment& assignment, const ShardPlaces& places,
                               const LoanTotals& open, BufferStore& store);

// Opens the next memories, at most kMemoriesAtATime, into `loan.lent`: a loan may have thousands of
// allocations, each of which takes milliseconds. Runs on any thread. nullopt: call it again. An
// error leaves nothing open: INVALID_ARGUMENT naming the field, or CANCELLED if `cancelled` becomes
// true.
std::optional<absl::Status> OpenSome(Loan& loan, DeviceSegments* segments,
                                     const std::atomic<bool>& cancelled);

// INVALID_ARGUMENT naming "lease" if the loan's lease has ended.
absl::Status CheckLease(const Loan& loan);

}  // namespace remesh::worker
