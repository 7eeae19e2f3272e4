// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"
#include "base/int_math.h"
#include "worker/execution/mover.h"

namespace remesh::worker {
namespace {

static_assert(std::endian::native == std::endian::little, "digests travel as they lie in memory");

// The most calls that hash sources again at the same time.
constexpr int kChecksInFlight = 8;

absl::Status ChunkError(absl::StatusCode code, const char* reason, const char* what,
                        const Program::Place& place,
                        const std::map<std::string, std::string>& more) {
  std::map<std::string, std::string> metadata = more;
  metadata["array"] = place.array;
  metadata["box"] = place.box.DebugString();
  std::string message = absl::StrCat(what, ": ", place.array, place.box.DebugString());
  for (const auto& [key, value] : more) absl::StrAppend(&message, ", ", key, " ", value);
  return MakeError(code, message, {reason, metadata});
}

absl::Status SourceModified(const Program::Place& place) {
  return ChunkError(absl::StatusCode::kAborted, "SOURCE_MODIFIED",
                    "the source was written while it was read", place, {});
}

}  // namespace

Device::Done Mover::OnDevice(absl::AnyInvocable<void(const Mismatch&)> then) {
  ++jobs_;
  return [this, then = std::move(then)](absl::StatusOr<Mismatch> found) mutable {
    --jobs_;
    if (halted() || !MemoryHolds()) return;
    if (!found.ok()) return Fail(found.status());
    then(*found);
    Advance();
  };
}

PeerGroup::Done Mover::OnTransfer(int slice, Then then) {
  ++slices_[slice].operations;
  return [this, slice, then = std::move(then)](absl::Status status) mutable {
    if (halted()) return;
    if (status.ok()) {
      if (--slices_[slice].operations > 0 || !MemoryHolds()) return;
      then();
      return Advance();
    }
    const std::string& peer = BlamedFor(status, slice);
    const std::string why(status.message());
    const char* reason =
        GetErrorInfo(status).reason == "PEER_LOST" ? "PEER_LOST" : "TRANSPORT_FAILED";
    Fail(MakeError(status.code(), absl::StrCat("transfer with host ", peer, ": ", why),
                   {reason, {{"host", peer}, {"error", why}}}));
  };
}

absl::Status Mover::Waits() const {
  std::set<std::string> from, to;
  for (int i = 0; i < std::ssize(slices_); ++i) {
    if (slices_[i].operations == 0) continue;
    const Message& message = messages_.MessageOf(messages_.slices()[i]);
    std::set<std::string>& named = message.outgoing ? to : from;
    if (std::ssize(named) < kNamedMax) named.insert(peer_names_[message.peer]);
  }
  if (from.empty() && to.empty()) return absl::OkStatus();
  const std::string receives = absl::StrJoin(from, ","), sends = absl::StrJoin(to, ",");
  return MakeError(absl::StatusCode::kUnavailable,
                   absl::StrCat("waits: receives from [", receives, "], sends to [", sends, "]"),
                   {"LINK_STALLED", {{"receives_from", receives}, {"sends_to", sends}}});
}

// If the failure of one host ends the operations of all hosts, the error names the failed host,
// which need not be the slice's peer.
const std::string& Mover::BlamedFor(const absl::Status& status, int slice) const {
  const ErrorInfo info = GetErrorInfo(status);
  const auto lost = info.metadata.find("peer");
  for (size_t i = 0; i < peer_addresses_.size() && lost != info.metadata.end(); ++i) {
    if (peer_addresses_[i] == lost->second) return peer_names_[i];
  }
  return peer_names_[messages_.MessageOf(messages_.slices()[slice]).peer];
}

std::vector<SlicePart> Mover::PartsOf(int slice) {
  std::vector<SlicePart> parts;
  for (const SlicePiece& piece : messages_.PiecesOf(messages_.slices()[slice])) {
    const BoundMove& move = list_.moves[piece.move];
    parts.push_back({.source = move.source,
                     .target = move.target,
                     .lo = piece.lo,
                     .hi = piece.hi,
                     .offset = piece.offset,
                     .digests = moves_[move.origin].digests.data() + piece.first_chunk,
                     .carried = move.carries >= 0});
  }
  return parts;
}

Device* Mover::DeviceOf(int index) const {
  const Message& message = messages_.MessageOf(messages_.slices()[index]);
  return devices_.Of(list_.local_device[message.outgoing ? message.from : message.to]);
}

MoverBytes::Link& Mover::LinkOf(int index) {
  return messages_.MessageOf(messages_.slices()[index]).whole ? bytes_.windowed : bytes_.streamed;
}

bool Mover::IsPacked(int slice) const { return slices_[slice].runs.empty(); }

void Mover::BeginLocal(int slice) {
  DeviceOf(slice)->Copy(PartsOf(slice), OnDevice([this, slice](const Mismatch& found) {
                          if (!found.ok()) return Mismatched(slice, found);
                          bytes_.copied += messages_.slices()[slice].payload_bytes;
                          SliceDone(slice);
                        }));
}

void Mover::BeginSend(int slice) {
  std::vector<SlicePart> parts = PartsOf(slice);
  const bool packed = IsPacked(slice);
  // A relay passes on the origin's digests, so it does not hash what it sends.
  if (!packed) std::erase_if(parts, [](const SlicePart& part) { return part.carried; });
  if (parts.empty()) return Packed(slice);
  DeviceOf(slice)->Pack(std::move(parts), packed ? slices_[slice].place.on_device : nullptr,
                        OnDevice([this, slice](const Mismatch&) { Packed(slice); }));
}

// The bits are in the memory from which they are sent, and their digests are known.
void Mover::Packed(int index) {
  const Slice& slice = messages_.slices()[index];
  SliceState& state = slices_[index];
  state.digests.reserve(slice.chunks);
  for (const SlicePart& part : PartsOf(index)) {
    state.digests.insert(state.digests.end(), part.digests,
                         part.digests + ChunksOf(part.lo, part.hi));
  }
  if (!messages_.MessageOf(slice).whole) return SendSlice(index);
  const auto bytes = std::as_writable_bytes(std::span(state.digests));
  DeviceOf(index)->Transfer(state.place.on_device + DigestOffset(slice), bytes.data(),
                            std::ssize(bytes),
                            OnDevice([this, index](const Mismatch&) { SendWhole(index); }));
}

void Mover::SendWhole(int index) {
  const Slice& slice = messages_.slices()[index];
  PeerGroup::Done done = OnTransfer(index, [this, index] {
    LinkOf(index).sent += messages_.slices()[index].payload_bytes;
    SliceDone(index);
  });
  group_->Send(messages_.MessageOf(slice).peer, messages_.TagOf(slice, false),
               slices_[index].place.bytes, std::move(done));
}

void Mover::SendSlice(int index) {
  const Slice& slice = messages_.slices()[index];
  SliceState& state = slices_[index];
  const auto sent = [this, index] {
    LinkOf(index).sent += messages_.slices()[index].payload_bytes;
    SliceDone(index);
  };
  const int peer = messages_.MessageOf(slice).peer;
  PeerGroup::Done data = OnTransfer(index, sent), digests = OnTransfer(index, sent);
  const MessageTag tag = messages_.TagOf(slice, false);
  if (state.runs.size() > 1) {
    group_->SendRuns(peer, tag, ConstRuns(state.runs.begin(), state.runs.end()), std::move(data));
  } else {
    group_->Send(peer, tag, state.runs.empty() ? state.place.bytes : state.runs.front(),
                 std::move(data));
  }
  group_->Send(peer, messages_.TagOf(slice, true), std::as_bytes(std::span(state.digests)),
               std::move(digests));
}

void Mover::BeginReceive(int index) {
  const Slice& slice = messages_.slices()[index];
  SliceState& state = slices_[index];
  state.digests.resize(slice.chunks);
  const int peer = messages_.MessageOf(slice).peer;
  if (messages_.MessageOf(slice).whole) {
    return group_->Receive(peer, messages_.TagOf(slice, false), state.place.bytes,
                           OnTransfer(index, [this, index] { ReceivedWhole(index); }));
  }
  const auto received = [this, index] { Received(index); };
  PeerGroup::Done data = OnTransfer(index, received), digests = OnTransfer(index, received);
  const MessageTag tag = messages_.TagOf(slice, false);
  if (state.runs.size() > 1) {
    group_->ReceiveRuns(peer, tag, state.runs, std::move(data));
  } else {
    group_->Receive(peer, tag, state.runs.empty() ? state.place.bytes : state.runs.front(),
                    std::move(data));
  }
  group_->Receive(peer, messages_.TagOf(slice, true),
                  std::as_writable_bytes(std::span(state.digests)), std::move(digests));
}

void Mover::ReceivedWhole(int index) {
  SliceState& state = slices_[index];
  const auto bytes = std::as_writable_bytes(std::span(state.digests));
  DeviceOf(index)->Transfer(
      bytes.data(), state.place.on_device + DigestOffset(messages_.slices()[index]),
      std::ssize(bytes), OnDevice([this, index](const Mismatch&) { Received(index); }));
}

// Checks the bits that arrived against the origin's digests before anything else reads them.
void Mover::Received(int slice) {
  SliceState& state = slices_[slice];
  std::vector<SlicePart> parts = PartsOf(slice);
  const uint64_t* digest = state.digests.data();
  for (SlicePart& part : parts) {
    const int64_t chunks = ChunksOf(part.lo, part.hi);
    std::copy_n(digest, chunks, part.digests);
    digest += chunks;
  }
  Device::Done done = OnDevice([this, slice](const Mismatch& found) {
    if (!found.ok()) return Mismatched(slice, found);
    LinkOf(slice).received += messages_.slices()[slice].payload_bytes;
    bytes_.chunks_verified += messages_.slices()[slice].chunks;
    SliceDone(slice);
  });
  if (IsPacked(slice))
    return DeviceOf(slice)->Unpack(std::move(parts), state.place.on_device, std::move(done));
  for (SlicePart& part : parts) std::swap(part.source, part.target);
  DeviceOf(slice)->Check(std::move(parts), std::move(done));
}

void Mover::Mismatched(int index, const Mismatch& mismatch) {
  const Slice& slice = messages_.slices()[index];
  const Message& message = messages_.MessageOf(slice);
  const SlicePiece& piece = messages_.PiecesOf(slice)[mismatch.part];
  const int64_t lo = piece.lo + mismatch.chunk * kChunkBits;
  const Program::Place place =
      list_.program.PlaceOn(list_.moves[piece.move].tape, lo, std::min(lo + kChunkBits, piece.hi));
  const int32_t tape = list_.moves[piece.move].tape;
  std::map<std::string, std::string> more = {
      {"window", absl::StrCat(message.window)},
      {"tape", absl::StrCat(list_.program.tapes.tape_numbers[tape])},
      {"position", absl::StrCat(lo)},
      {"receiver", peer_names_[self_]}};
  if (message.peer >= 0) more["host"] = peer_names_[message.peer];
  Fail(ChunkError(absl::StatusCode::kDataLoss, "DIGEST_MISMATCH",
                  "bytes arrived that are not the origin's", place, more));
}

std::optional<ChunkName> ChunkNamedIn(const absl::Status& status) {
  const ErrorInfo info = GetErrorInfo(status);
  const auto tape = info.metadata.find("tape"), position = info.metadata.find("position");
  ChunkName chunk;
  if (info.reason != "DIGEST_MISMATCH" || tape == info.metadata.end() ||
      position == info.metadata.end() || !absl::SimpleAtoi(tape->second, &chunk.tape) ||
      !absl::SimpleAtoi(position->second, &chunk.position)) {
    return std::nullopt;
  }
  return chunk;
}

// The moves with which this host read the chunk from the source.
std::vector<int> Mover::ReadFromSource(const ChunkName& chunk) const {
  std::vector<int> found;
  for (int s = 0; s < std::ssize(slices_); ++s) {
    if (!slices_[s].done && slices_[s].digests.empty()) continue;  // not hashed yet
    for (const SlicePiece& piece : messages_.PiecesOf(messages_.slices()[s])) {
      const BoundMove& move = list_.moves[piece.move];
      if (move.from_origin && list_.program.tapes.tape_numbers[move.tape] == chunk.tape &&
          piece.lo <= chunk.position && chunk.position < piece.hi) {
        found.push_back(piece.move);
      }
    }
  }
  return found;
}

void Mover::LookAgain(const ChunkName& chunk, absl::AnyInvocable<void(absl::Status)> looked) {
  failed_ = true;
  if (group_ != nullptr) group_->Abort();
  struct Looking {
    absl::AnyInvocable<void(absl::Status)> looked;
    int left = 1;
    absl::Status status;
    void End() {
      if (--left == 0) looked(status);
    }
  };
  auto looking = std::make_shared<Looking>(Looking{.looked = std::move(looked)});
  looking->status = CheckMemory();
  for (const int i : looking->status.ok() ? ReadFromSource(chunk) : std::vector<int>()) {
    const BoundMove& move = list_.moves[i];
    const int64_t k = (chunk.position - move.lo) / kChunkBits, lo = move.lo + k * kChunkBits;
    const int64_t hi = std::min(lo + kChunkBits, move.hi);
    ++looking->left;
    ++jobs_;
    devices_.Of(list_.local_device[move.from])
        ->Check(
            {{.source = move.source, .lo = lo, .hi = hi, .digests = moves_[i].digests.data() + k}},
            [this, looking, place = list_.program.PlaceOn(move.tape, lo, hi)](auto found) {
              --jobs_;
              if (found.ok() && !found->ok()) looking->status = SourceModified(place);
              looking->End();
            });
  }
  looking->End();
}

void Mover::Verify() {
  if (halted()) return;
  REMESH_CHECK(schedule_.all_finished());
  if (group_ != nullptr && group_->Rest() && events_.rests) events_.rests();
  checking_ = true;
  if (!MemoryHolds() || !CheckTwins()) return;
  if (writes_ && writes_->NoOtherProcessWrote()) checked_.clear();
  CheckSources();
}

// Bits that were read from the source for several receivers are hashed again only once, so all of
// these reads must have the same digests. If they do not, fails the mover and returns false.
bool Mover::CheckTwins() {
  std::map<std::tuple<int32_t, int64_t, int>, int> first;
  for (int i = 0; i < std::ssize(list_.moves); ++i) {
    const BoundMove& move = list_.moves[i];
    if (!move.from_origin) continue;
    const auto [it, added] = first.try_emplace({move.tape, move.lo, move.from}, i);
    if (added) checked_.push_back(i);
    if (moves_[it->second].digests == moves_[i].digests) continue;
    Fail(SourceModified(list_.program.PlaceOn(move.tape, move.lo, move.hi)));
    return false;
  }
  return true;
}

void Mover::CheckSources() {
  while (next_check_ < checked_.size() && checks_in_flight_ < kChecksInFlight) {
    const size_t first = next_check_;
    const int device = list_.local_device[list_.moves[checked_[first]].from];
    std::vector<SlicePart> parts;
    for (int64_t bits = 0; next_check_ < checked_.size() && bits < kSliceBytesMax * 8;
         ++next_check_) {
      const BoundMove& move = list_.moves[checked_[next_check_]];
      if (list_.local_device[move.from] != device) break;
      parts.push_back({.source = move.source,
                       .lo = move.lo,
                       .hi = move.hi,
                       .digests = moves_[checked_[next_check_]].digests.data()});
      bits += move.hi - move.lo;
    }
    ++checks_in_flight_;
    devices_.Of(device)->Check(std::move(parts), OnDevice([this, first](const Mismatch& found) {
                                 --checks_in_flight_;
                                 if (found.ok()) return CheckSources();
                                 const BoundMove& move = list_.moves[checked_[first + found.part]];
                                 const int64_t lo = move.lo + found.chunk * kChunkBits;
                                 Fail(SourceModified(list_.program.PlaceOn(
                                     move.tape, lo, std::min(lo + kChunkBits, move.hi))));
                               }));
  }
  if (next_check_ == checked_.size() && checks_in_flight_ == 0 && std::exchange(checking_, false)) {
    events_.verified(CheckMemory());
  }
}

}  // namespace remesh::worker
