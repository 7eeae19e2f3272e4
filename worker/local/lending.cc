// SPDX-License-Identifier: Apache-2.0
#include "worker/local/lending.h"

#include <sys/sysinfo.h>

#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

constexpr int64_t kLentAlignment = 16;

std::string Path(const char* list, int index, const char* field) {
  return absl::StrCat(list, "[", index, "].", field);
}

// The shards of an assignment, found by what a request says of them. A device may have thousands of
// boxes of one array, and a request names each of them.
class ShardIndex {
 public:
  explicit ShardIndex(const v1::Assignment& assignment) {
    for (int i = 0; i < assignment.shards_size(); ++i) {
      const v1::ShardSpec& shard = assignment.shards(i);
      shards_[{shard.device(), assignment.arrays(shard.array()).name()}].emplace(
          shard.box().SerializeAsString(), i);
    }
  }

  // Index in the assignment of the shard that `lent`, the request's shards[index], names.
  absl::StatusOr<int> Find(const v1::LentShard& lent, int index) const {
    const auto boxes = shards_.find({lent.device(), lent.array()});
    if (boxes != shards_.end() && !lent.has_box()) {
      if (boxes->second.size() == 1) return boxes->second.begin()->second;
      return InvalidField(Path("shards", index, "box"), "", "must say which: there are several");
    }
    if (boxes != shards_.end()) {
      const auto box = boxes->second.find(lent.box().SerializeAsString());
      if (box != boxes->second.end()) return box->second;
    }
    return InvalidField(Path("shards", index, "array"),
                        absl::StrCat(lent.array(), " on device ", lent.device()),
                        "must be a shard that this host has of the state");
  }

 private:
  using Boxes = std::map<std::string, int>;                  // by the serialized box
  std::map<std::pair<int64_t, std::string>, Boxes> shards_;  // by device and array
};

absl::Status CheckPlace(const v1::LentShard& lent, int index, int64_t bytes,
                        const v1::LendRequest& request) {
  if (lent.memory() < 0 || lent.memory() >= request.memories_size()) {
    return InvalidField(Path("shards", index, "memory"), absl::StrCat(lent.memory()),
                        absl::StrCat("must be in [0, ", request.memories_size(), ")"));
  }
  const int64_t room = request.memories(lent.memory()).bytes();
  if (lent.offset() < 0 || lent.offset() % kLentAlignment != 0 || lent.offset() > room ||
      bytes > room - lent.offset()) {
    return InvalidField(Path("shards", index, "offset"), absl::StrCat(lent.offset()),
                        absl::StrCat("must be a multiple of ", kLentAlignment, " with ", bytes,
                                     " bytes behind it in memory of ", room));
  }
  return absl::OkStatus();
}

// Where each shard is, and the local device of each memory; -1: no shard uses the memory.
struct Arrangement {
  std::vector<LentShards::Place> places;
  std::vector<int> device_of;
};

absl::StatusOr<Arrangement> Arrange(const v1::LendRequest& request,
                                    const v1::Assignment& assignment, const ShardPlaces& places) {
  Arrangement made{std::vector<LentShards::Place>(places.shards.size(), {.memory = -1}),
                   std::vector<int>(request.memories_size(), -1)};
  const ShardIndex index(assignment);
  for (int i = 0; i < request.shards_size(); ++i) {
    const v1::LentShard& lent = request.shards(i);
    ASSIGN_OR_RETURN(const int shard, index.Find(lent, i));
    RETURN_IF_ERROR(CheckPlace(lent, i, places.shards[shard].bytes, request));
    if (made.places[shard].memory >= 0)
      return InvalidField(Path("shards", i, "array"), lent.array(), "must not be there twice");
    made.places[shard] = {lent.memory(), lent.offset()};
    int& device = made.device_of[lent.memory()];
    const int local = assignment.shards(shard).local_device();
    if (device >= 0 && device != local && request.memories(lent.memory()).kind() != "host")
      return InvalidField(Path("shards", i, "memory"), absl::StrCat(lent.memory()),
                          "must be of one device alone");
    device = local;
  }
  for (size_t i = 0; i < made.places.size(); ++i) {
    if (made.places[i].memory >= 0) continue;
    const v1::ShardSpec& absent = assignment.shards(static_cast<int>(i));
    return InvalidField("shards", absl::StrCat(request.shards_size(), " shards"),
                        absl::StrCat("must have ", assignment.arrays(absent.array()).name(),
                                     " on device ", absent.device()));
  }
  return made;
}

absl::Status CheckAllocation(const v1::LentMemory& memory, int index) {
  const v1::IpcAllocation& allocation = memory.ipc();
  if (allocation.handle().size() != kIpcHandleBytes) {
    return InvalidField(Path("memories", index, "ipc.handle"),
                        absl::StrCat(allocation.handle().size(), " bytes"),
                        absl::StrCat("must be ", kIpcHandleBytes, " bytes"));
  }
  if (allocation.bytes() < 1)
    return InvalidField(Path("memories", index, "ipc.bytes"), absl::StrCat(allocation.bytes()),
                        "must be >= 1");
  if (allocation.offset() < 0 || allocation.offset() % kLentAlignment != 0 ||
      allocation.offset() > allocation.bytes() ||
      memory.bytes() > allocation.bytes() - allocation.offset()) {
    return InvalidField(
        Path("memories", index, "ipc.offset"), absl::StrCat(allocation.offset()),
        absl::StrCat("must be a multiple of ", kLentAlignment, " with ", memory.bytes(),
                     " bytes behind it in an allocation of ", allocation.bytes()));
  }
  return absl::OkStatus();
}

absl::Status CheckHostBytes(const v1::LendRequest& request) {
  const int64_t machine = MachineBytes();
  int64_t left = machine;
  for (int i = 0; i < request.memories_size(); ++i) {
    const v1::LentMemory& memory = request.memories(i);
    if (memory.kind() != "host") continue;
    if (memory.bytes() > left)
      return InvalidField(
          Path("memories", i, "bytes"), absl::StrCat(memory.bytes()),
          absl::StrCat("must be at most ", left, ": all of kind host together at most ", machine,
                       ", the machine's memory"));
    left -= memory.bytes();
  }
  return absl::OkStatus();
}

LoanSize SizeOf(const v1::LendRequest& request, uid_t lender) {
  LoanSize size{.lender = lender, .memories = request.memories_size()};
  for (const v1::LentMemory& memory : request.memories())
    if (memory.kind() == "host") size.host_bytes += memory.bytes();
  return size;
}

absl::Status TooMuchLent(const char* field, int64_t value, int64_t open, int64_t most,
                         const std::string& whose) {
  const std::string lends = absl::StrCat(value), has = absl::StrCat(open), max = absl::StrCat(most);
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat(field, ": ", lends, " and the ", has, " that ", whose,
                   " now are more than the limit, ", max, ": Unseal what is not needed"),
      {"TOO_MUCH_LENT",
       {{"field", field}, {"value", lends}, {"open", has}, {"limit", max}, {"whose", whose}}});
}

absl::Status CheckTotals(const LoanSize& loan, const LoanTotals& open) {
  const std::string user = absl::StrCat("uid ", loan.lender, " lends");
  const char* const all = "all users lend";
  const auto check = [](const char* field, int64_t value, int64_t has, int64_t most,
                        const std::string& whose) {
    if (value == 0 || value <= most - has) return absl::OkStatus();
    return TooMuchLent(field, value, has, most, whose);
  };
  const int64_t machine = MachineBytes();
  const int64_t everybody =
      machine > std::numeric_limits<int64_t>::max() / 4 ? machine : 4 * machine;
  const char* const bytes = "memories.bytes";
  RETURN_IF_ERROR(check(bytes, loan.host_bytes, open.of_user.host_bytes, machine, user));
  RETURN_IF_ERROR(check(bytes, loan.host_bytes, open.all.host_bytes, everybody, all));
  RETURN_IF_ERROR(
      check("memories", loan.memories, open.of_user.memories, kLentMemoriesOfUser, user));
  return check("memories", loan.memories, open.all.memories, kLentMemoriesMax, all);
}

// Checks everything about the memories that does not require opening them. `device_of`: as in
// Arrangement.
absl::Status CheckMemories(const v1::LendRequest& request, const std::vector<int>& device_of) {
  for (int i = 0; i < request.memories_size(); ++i) {
    const v1::LentMemory& memory = request.memories(i);
    if (memory.bytes() < 1)
      return InvalidField(Path("memories", i, "bytes"), absl::StrCat(memory.bytes()),
                          "must be >= 1");
    const char* const by = memory.has_ipc() ? "ipc" : "token";
    if (device_of[i] < 0)
      return InvalidField(Path("memories", i, by), memory.token(), "must hold a shard");
    if (!memory.has_ipc()) continue;
    RETURN_IF_ERROR(CheckAllocation(memory, i));
    if (request.lease().empty())
      return InvalidField("lease", "", absl::StrCat("must be there for memories[", i, "].ipc"));
  }
  return absl::OkStatus();
}

absl::Status NoSuchLease(const v1::LendRequest& request) {
  return InvalidField("lease", request.lease(),
                      "must be one that the socket of handles gave, by a connection that stands");
}

// Whoever learns the name of another user's lease must not lend by it.
absl::Status CheckUser(const Lease& lease, uid_t lender) {
  if (lease.user() == lender && lender != kUnknownUser) return absl::OkStatus();
  const std::string caller = absl::StrCat(lender), user = absl::StrCat(lease.user());
  return MakeError(absl::StatusCode::kPermissionDenied,
                   absl::StrCat("uid ", caller, " may not lend by a lease of uid ", user),
                   {"LEASE_OF_ANOTHER_USER", {{"uid", caller}, {"lease_uid", user}}});
}

// The lease that the request names; null if it names none, so that the memory does not depend on
// the lender's life.
absl::StatusOr<std::shared_ptr<const Lease>> LeaseOf(const v1::LendRequest& request, uid_t lender,
                                                     BufferStore& store) {
  if (request.lease().empty()) return nullptr;
  auto lease =
      store.handles() == nullptr ? nullptr : store.handles()->leases().Find(request.lease());
  if (lease == nullptr) return NoSuchLease(request);
  RETURN_IF_ERROR(CheckUser(*lease, lender));
  return lease;
}

// The handle of each memory that has a token; null for the others.
absl::StatusOr<std::vector<std::shared_ptr<const Fd>>> TakeHandles(const v1::LendRequest& request,
                                                                   BufferStore& store) {
  std::vector<std::shared_ptr<const Fd>> handles(request.memories_size());
  for (int i = 0; i < request.memories_size(); ++i) {
    const v1::LentMemory& memory = request.memories(i);
    if (memory.has_ipc()) continue;
    if (store.handles() != nullptr) handles[i] = store.handles()->Take(memory.token(), absl::Now());
    if (handles[i] == nullptr)
      return InvalidField(Path("memories", i, "token"), memory.token(),
                          "must be one that the socket of handles gave within a minute");
  }
  return handles;
}

absl::StatusOr<LentMemory> OpenMemory(const Loan& loan, int index, DeviceSegments* segments) {
  const v1::LentMemory& memory = loan.request.memories(index);
  const LentKind kind{memory.kind(), memory.device_uuid(), loan.device_of[index]};
  if (!memory.has_ipc())
    return MapLentMemory(kind, loan.handles[index]->get(), memory.bytes(), segments);
  const v1::IpcAllocation& said = memory.ipc();
  return OpenLentMemory(kind, {loan.lender, said.handle(), said.bytes(), said.offset()}, segments);
}

absl::Status GivenUp() { return absl::CancelledError("the loan was given up"); }

// Opens the next memory.
absl::Status OpenNext(Loan& loan, DeviceSegments* segments) {
  MappedShards& mapped = *loan.lent.mapped;
  const int index = static_cast<int>(mapped.files.size());
  auto memory = OpenMemory(loan, index, segments);
  if (!memory.ok()) return AtField(absl::StrCat("memories[", index, "]"), memory.status());
  loan.handles[index] = nullptr;
  loan.lent.missing_bytes += memory->missing_bytes;
  mapped.files.push_back(std::move(memory->host));
  mapped.on_device.push_back(std::move(memory->device));
  return absl::OkStatus();
}

bool AllOpen(const Loan& loan) {
  return static_cast<int>(loan.lent.mapped->files.size()) == loan.request.memories_size();
}

// Closes what is open of a loan that failed.
std::optional<absl::Status> CloseSome(Loan& loan) {
  MappedShards& mapped = *loan.lent.mapped;
  loan.handles.clear();
  if (!EndSome(mapped)) return std::nullopt;
  mapped.lease = nullptr;
  return loan.failed;
}

}  // namespace

absl::Status CheckLease(const Loan& loan) {
  if (loan.lease == nullptr || !loan.lease->ended()) return absl::OkStatus();
  return NoSuchLease(loan.request);
}

int64_t MachineBytes() {
  struct sysinfo info {};
  if (sysinfo(&info) != 0) return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(info.totalram + info.totalswap) * info.mem_unit;
}

absl::StatusOr<Loan> CheckLoan(const v1::LendRequest& request, uid_t lender,
                               const v1::Assignment& assignment, const ShardPlaces& places,
                               const LoanTotals& open, BufferStore& store) {
  if (request.memories_size() > kLentMemoriesOfUser)
    return InvalidField("memories", absl::StrCat(request.memories_size()),
                        absl::StrCat("must be at most ", kLentMemoriesOfUser));
  ASSIGN_OR_RETURN(Arrangement made, Arrange(request, assignment, places));
  RETURN_IF_ERROR(CheckMemories(request, made.device_of));
  RETURN_IF_ERROR(CheckHostBytes(request));
  Loan loan{.request = request,
            .lender = lender,
            .device_of = std::move(made.device_of),
            .size = SizeOf(request, lender)};
  loan.lent.places = std::move(made.places);
  loan.lent.write = request.write();
  ASSIGN_OR_RETURN(loan.lease, LeaseOf(request, lender, store));
  RETURN_IF_ERROR(CheckTotals(loan.size, open));
  ASSIGN_OR_RETURN(loan.handles, TakeHandles(request, store));
  return loan;
}

std::optional<absl::Status> OpenSome(Loan& loan, DeviceSegments* segments,
                                     const std::atomic<bool>& cancelled) {
  loan.lent.mapped->lease = loan.lease;
  for (int i = 0; i < kMemoriesAtATime && loan.failed.ok() && !AllOpen(loan); ++i)
    loan.failed = cancelled ? GivenUp() : OpenNext(loan, segments);
  if (loan.failed.ok() && cancelled) loan.failed = GivenUp();
  if (!loan.failed.ok()) return CloseSome(loan);
  if (AllOpen(loan)) return absl::OkStatus();
  return std::nullopt;
}

}  // namespace remesh::worker
