// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/mover.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "worker/device/chunks.h"
#include "worker/execution/direct_runs.h"

namespace remesh::worker {
namespace {

// The most slices inside the host that the device may hold at once: enough to keep it busy, few
// enough not to delay slices to and from other hosts.
constexpr int kLocalInFlight = 8;

// Units of work of each window: one for each slice.
std::vector<int64_t> WorkOf(const MoveList& list) {
  std::vector<int64_t> work;
  for (int32_t window = 0; window < list.program.windows(); ++window)
    work.push_back(std::ssize(list.messages.InOrder(window)));
  return work;
}

std::vector<std::vector<const MappedFile*>> FilesOf(
    const std::shared_ptr<const MappedShards>& source) {
  if (source == nullptr) return {};
  return FilesByDevice(*source);
}

}  // namespace

MoverBytes MoverBytes::Since(const MoverBytes& before) const {
  const auto since = [](const Link& link, const Link& then) {
    return Link{link.sent - then.sent, link.received - then.received};
  };
  return {since(windowed, before.windowed), since(streamed, before.streamed),
          copied - before.copied, chunks_verified - before.chunks_verified};
}

Mover::Mover(MoveList list, std::vector<std::string> peer_names, const Options& options,
             Transport* transport, LocalDevices devices, Events events)
    : list_(std::move(list)),
      peer_names_(std::move(peer_names)),
      options_(options),
      transport_(transport),
      devices_(std::move(devices)),
      events_(std::move(events)),
      moves_(list_.moves.size()),
      slices_(messages_.slices().size()),
      started_at_(list_.program.windows()),
      schedule_(WorkOf(list_)),
      places_(&list_, options.limits, transport->gathers()),
      source_files_(FilesOf(list_.source)) {
  REMESH_CHECK(options.limits.slices_in_flight > 0);
}

Mover::~Mover() { REMESH_CHECK(stopped()); }

absl::Status Mover::Open(int self, std::vector<Peer> peers, const Lasting& lasting) {
  for (const Peer& peer : peers) peer_addresses_.push_back(peer.address);
  self_ = self;
  if (list_.source != nullptr && !options_.rechecks_always) writes_.emplace(*list_.source);
  ASSIGN_OR_RETURN(group_, transport_->OpenLasting(self, std::move(peers), lasting));
  std::vector<int32_t> operations(list_.program.windows(), 0);
  for (const Message& message : messages_.messages())
    operations[message.window] += message.peer >= 0 && message.whole ? 1 : 0;
  group_->Expect(std::move(operations));
  return absl::OkStatus();
}

void Mover::Grant(int32_t until) {
  schedule_.Grant(until);
  if (MemoryHolds()) Advance();
}

void Mover::Stop(bool well) {
  *stopping_ = true;
  if (group_ != nullptr) well ? group_->Keep() : group_->Abort();
}

bool Mover::stopped() const {
  return *stopping_ && jobs_ == 0 && (group_ == nullptr || group_->quiesced());
}

void Mover::Fail(const absl::Status& status) {
  if (halted()) return;
  failed_ = true;
  // A truncated buffer, or a lender that is gone, can cause many kinds of errors: report that
  // instead.
  const absl::Status cause = CheckMemory();
  (checking_ ? events_.verified : events_.failed)(cause.ok() ? status : cause);
}

absl::Status Mover::CheckMemory() const {
  for (const auto& shards : {list_.source, list_.target}) {
    if (shards != nullptr) RETURN_IF_ERROR(shards->CheckWhole());
  }
  return CheckModified();
}

// A page that another process cut off comes back, of zeros, when it is read. So
// the files must have all of their pages right before a slice of them is read.
absl::Status Mover::CheckBeforeReading(int index) const {
  const Slice& slice = messages_.slices()[index];
  const Message& message = messages_.MessageOf(slice);
  const auto from_source = [this](const SlicePiece& piece) {
    return list_.moves[piece.move].from_origin;
  };
  if (std::ranges::none_of(messages_.PiecesOf(slice), from_source)) return absl::OkStatus();
  const int local = list_.local_device[message.from];
  if (local >= std::ssize(source_files_)) return absl::OkStatus();  // memory of devices
  for (const MappedFile* file : source_files_[local]) RETURN_IF_ERROR(file->CheckWhole());
  return CheckModified();
}

absl::Status Mover::CheckModified() const {
  if (options_.modify_watch == nullptr) return absl::OkStatus();
  return options_.modify_watch->Check();
}

bool Mover::MemoryHolds() {
  const bool spoiled = (list_.source != nullptr && list_.source->spoiled()) ||
                       (list_.target != nullptr && list_.target->spoiled());
  if (spoiled) Fail(CheckMemory());
  return !spoiled;
}

void Mover::Advance() {
  if (halted()) return;
  while (const auto window = schedule_.TakeStartable()) StartWindow(*window);
  AdmitStreams();
  AdmitLocal();
  while (const auto window = halted() ? std::nullopt : schedule_.TakeFinished())
    events_.window_done({*window, bytes_, options_.clock->Now() - started_at_[*window]});
}

void Mover::StartWindow(int32_t window) {
  started_at_[window] = options_.clock->Now();
  for (const int index : messages_.InOrder(window)) {
    const Slice& slice = messages_.slices()[index];
    SliceState& state = slices_[index];
    for (const SlicePiece& piece : messages_.PiecesOf(slice)) {
      const BoundMove& move = list_.moves[piece.move];
      ++moves_[piece.move].slices_left;
      if (move.origin == piece.move) moves_[piece.move].digests.resize(move.chunks());
      if (move.carries < 0 || moves_[move.carries].done) continue;
      ++state.waits;
      moves_[move.carries].dependents.push_back(index);
    }
    if (messages_.MessageOf(slice).peer < 0 && state.waits == 0) local_ready_.push_back(index);
  }
  for (const int index : messages_.InOrder(window)) {
    const Message& message = messages_.MessageOf(messages_.slices()[index]);
    if (message.peer < 0 || !message.whole) continue;
    REMESH_CHECK(Place(index));
    Admit(index);
  }
}

void Mover::AdmitStreams() {
  auto& [window, next] = next_stream_;
  while (window < schedule_.started()) {
    const absl::Span<const int> order = messages_.InOrder(window);
    if (next == std::ssize(order)) {
      ++window;
      next = 0;
      continue;
    }
    const int index = order[next];
    const Message& message = messages_.MessageOf(messages_.slices()[index]);
    if (message.peer >= 0 && !message.whole) {
      if (streams_in_flight_ >= options_.limits.slices_in_flight || !Place(index)) return;
      ++streams_in_flight_;
      Admit(index);
    }
    ++next;
  }
}

void Mover::Admit(int slice) {
  slices_[slice].admitted = true;
  if (slices_[slice].waits == 0) Begin(slice);
}

// Finds memory for a slice on its way; false while there is no room.
bool Mover::Place(int index) {
  const Slice& slice = messages_.slices()[index];
  if (!messages_.MessageOf(slice).whole) {
    slices_[index].runs =
        DirectRuns(list_, slice, transport_->gathers(), options_.limits.run_bytes);
    if (!slices_[index].runs.empty()) return true;
  }
  const auto place = places_.Take(index);
  if (place) slices_[index].place = *place;
  return place.has_value();
}

// A local slice that waits for another takes up nothing here, and no other host waits for it.
void Mover::AdmitLocal() {
  while (!local_ready_.empty() && local_in_flight_ < kLocalInFlight) {
    ++local_in_flight_;
    const int slice = local_ready_.front();
    local_ready_.pop_front();
    Begin(slice);
  }
}

void Mover::Begin(int slice) {
  if (halted()) return;
  if (const absl::Status status = CheckBeforeReading(slice); !status.ok()) return Fail(status);
  const Message& message = messages_.MessageOf(messages_.slices()[slice]);
  if (message.peer < 0) {
    BeginLocal(slice);
  } else if (message.outgoing) {
    BeginSend(slice);
  } else {
    BeginReceive(slice);
  }
}

void Mover::SliceDone(int index) {
  const Slice& slice = messages_.slices()[index];
  SliceState& state = slices_[index];
  const Message& message = messages_.MessageOf(slice);
  if (options_.slices_done != nullptr) ++*options_.slices_done;
  if (message.peer < 0) {
    --local_in_flight_;
  } else if (!message.whole) {
    --streams_in_flight_;
    places_.Give(index);
  }
  state = {};
  state.done = true;
  for (const SlicePiece& piece : messages_.PiecesOf(slice)) {
    if (--moves_[piece.move].slices_left == 0) MoveDone(piece.move);
  }
  schedule_.Done(message.window);
}

void Mover::MoveDone(int move) {
  moves_[move].done = true;
  for (const int slice : std::exchange(moves_[move].dependents, {})) {
    if (--slices_[slice].waits > 0) continue;
    if (messages_.MessageOf(messages_.slices()[slice]).peer < 0) {
      local_ready_.push_back(slice);
    } else if (slices_[slice].admitted) {
      Begin(slice);
    }
  }
}

}  // namespace remesh::worker
