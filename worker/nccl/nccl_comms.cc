// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/nccl_comms.h"

#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace remesh::worker {

NcclComms::NcclComms(const NcclApi* api, GpuStreams* streams, const NcclLimits& limits, int ranks,
                     std::vector<NcclLocal> locals)
    : api_(api),
      streams_(streams),
      limits_(limits),
      ranks_(ranks),
      locals_(std::move(locals)),
      comms_(locals_.size(), nullptr) {}

NcclComms::~NcclComms() {
  for (const nccl::Comm* comm : comms_) REMESH_CHECK(comm == nullptr);
}

absl::Status NcclComms::Init(std::span<const nccl::UniqueId> ids) {
  std::vector<nccl::UniqueId> copies(ids.begin(), ids.end());
  RETURN_IF_ERROR(NcclStatus(*api_, "ncclGroupStart", api_->group_start(), nullptr));
  absl::Status status;
  for (size_t i = 0; i < locals_.size() && status.ok(); ++i) {
    nccl::Config config;
    config.blocking = 0;
    if (limits_.max_ctas > 0) config.max_ctas = limits_.max_ctas;
    if (limits_.channels_per_net_peer > 0)
      config.channels_per_net_peer = limits_.channels_per_net_peer;
    const auto [rank, device] = locals_[i];
    status = streams_->MakeCurrent(device);
    if (!status.ok()) break;
    status =
        copies.size() == 1
            ? NcclStatus(*api_, "ncclCommInitRankConfig",
                         api_->init_rank(&comms_[i], ranks_, copies[0], rank, &config), nullptr)
            : NcclStatus(
                  *api_, "ncclCommInitRankScalable",
                  api_->init_rank_scalable(&comms_[i], ranks_, rank,
                                           static_cast<int>(copies.size()), copies.data(), &config),
                  nullptr);
  }
  // Also after an error: the group belongs to this thread, and must end on it.
  status.Update(NcclStatus(*api_, "ncclGroupEnd", api_->group_end(), nullptr));
  return status;
}

absl::Status NcclComms::Post(std::span<const NcclEntry> entries) {
  RETURN_IF_ERROR(NcclStatus(*api_, "ncclGroupStart", api_->group_start(), nullptr));
  absl::Status status;
  for (const NcclEntry& e : entries) {
    nccl::Comm* comm = comms_[e.local];
    const nccl::Stream stream = streams_->Handle(locals_[e.local].device);
    // Everything travels as bytes: NCCL's other types are of no use to a transfer.
    status =
        e.send
            ? NcclStatus(*api_, "ncclSend",
                         api_->send(e.address, e.bytes, nccl::kUint8, e.peer, comm, stream), comm)
            : NcclStatus(*api_, "ncclRecv",
                         api_->receive(e.address, e.bytes, nccl::kUint8, e.peer, comm, stream),
                         comm);
    if (!status.ok()) break;
  }
  status.Update(NcclStatus(*api_, "ncclGroupEnd", api_->group_end(), nullptr));
  return status;
}

absl::StatusOr<bool> NcclComms::Ready() {
  bool ready = true;
  for (nccl::Comm* comm : comms_) {
    nccl::Result state = nccl::Result::kSuccess;
    RETURN_IF_ERROR(
        NcclStatus(*api_, "ncclCommGetAsyncError", api_->get_async_error(comm, &state), comm));
    RETURN_IF_ERROR(NcclStatus(*api_, "the communicator", state, comm));
    ready &= state == nccl::Result::kSuccess;
  }
  return ready;
}

void NcclComms::AbortAll() {
  for (nccl::Comm*& comm : comms_) {
    // Whatever the result, nothing else can be done with the communicator.
    if (nccl::Comm* gone = std::exchange(comm, nullptr); gone != nullptr) api_->abort(gone);
  }
}

}  // namespace remesh::worker
