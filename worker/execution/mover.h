// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "worker/device/device.h"
#include "worker/execution/direct_runs.h"
#include "worker/execution/moves.h"
#include "worker/execution/slice_places.h"
#include "worker/execution/window_schedule.h"
#include "worker/store/modify_watch.h"
#include "worker/store/write_watch.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

// How much an attempt has moved so far on this host.
struct MoverBytes {
  struct Link {
    int64_t sent = 0;      // to other hosts
    int64_t received = 0;  // from other hosts, verified
  };
  Link windowed;                // with windowed peers
  Link streamed;                // with others
  int64_t copied = 0;           // inside the host
  int64_t chunks_verified = 0;  // of those received

  int64_t sent() const { return windowed.sent + streamed.sent; }
  int64_t received() const { return windowed.received + streamed.received; }
  // Without what was moved before.
  MoverBytes Since(const MoverBytes& before) const;
};

// Reports that a window is done on this host.
struct WindowReport {
  int32_t window = 0;
  MoverBytes bytes;       // totals of the attempt so far
  Timestamp duration{0};  // since the window started
};

// Names a chunk to all hosts of an attempt, by any of its bits.
struct ChunkName {
  int32_t tape = 0;      // in the plan
  int64_t position = 0;  // on the tape, in bits
};

// The chunk that a DIGEST_MISMATCH names in its metadata; nullopt if it names none.
std::optional<ChunkName> ChunkNamedIn(const absl::Status& status);

// Moves the bytes of one attempt on one host. All calls come from one thread, which also drives the
// transport and drains the device. The device does all copying, packing and hashing.
//
// Slices to and from other hosts are admitted strictly in the order that all hosts share, within
// limits on the number of slices and on the memory for packed slices. So the earliest unfinished
// slice is admitted at both of its ends, and no two hosts wait for each other. Messages that travel
// whole have memory of their own and are admitted when their window starts: they wait only for what
// earlier windows bring, and slices that stream never wait for those of their own window.
class Mover {
 public:
  struct Options {
    StreamLimits limits;
    bool rechecks_always = false;  // whether Verify() hashes sources again in any case
    std::atomic<uint64_t>* slices_done = nullptr;  // counts them; null: they are not counted
    const Clock* clock = &SteadyClock();
    // Of the files of source and target, since before they were looked at; null:
    // nothing watches them.
    std::shared_ptr<ModifyWatch> modify_watch = nullptr;
  };
  struct Events {
    absl::AnyInvocable<void(const WindowReport&)> window_done;  // in order
    absl::AnyInvocable<void(absl::Status)> failed;              // at most once; no event follows
    absl::AnyInvocable<void()> rests;  // in Verify(): connections stay for Stop(true); may be null
    absl::AnyInvocable<void(absl::Status)>
        verified;  // answers Verify(); an error is the last event
  };

  // Devices and `transport` must outlive the mover. Errors name hosts by `peer_names`. REQUIRES:
  // `list` has memory for slices on their way (SlicePlaces), and the messages with windowed peers,
  // and no others, travel whole.
  Mover(MoveList list, std::vector<std::string> peer_names, const Options& options,
        Transport* transport, LocalDevices devices, Events events);
  // REQUIRES: stopped().
  ~Mover();

  // Joins the attempt. Must be the first call.
  absl::Status Open(int self, std::vector<Peer> peers, const Lasting& lasting = {});
  // Windows [0, until) may start.
  void Grant(int32_t until);
  // What this host waits for: UNAVAILABLE (LINK_STALLED; in its metadata receives_from and sends_to
  // name at most kNamedMax hosts each, separated by commas, with which transfers are under way), or
  // OK if it waits for no host.
  absl::Status Waits() const;
  static constexpr int kNamedMax = 16;
  // Hashes again what this host read from the source generation, unless it is certain that no
  // process wrote it in the meantime (WriteWatch). `verified` gets OK, ABORTED (SOURCE_MODIFIED) or
  // FAILED_PRECONDITION (BUFFER_TRUNCATED, SOURCE_LOST); the latter may also be the reason of an
  // earlier `failed`. All hosts have finished all windows by then, so the connections close or
  // rest. REQUIRES: every window is done on this host.
  void Verify();
  // Ends all moving; no event follows. If this host read `chunk` from the source, it hashes the
  // chunk again: `looked` gets ABORTED (SOURCE_MODIFIED) if the bits have changed since, else OK.
  void LookAgain(const ChunkName& chunk, absl::AnyInvocable<void(absl::Status)> looked);
  // Ends everything; no event follows. `well` says that the target is committed, so resting
  // connections may serve another attempt.
  void Stop(bool well = false);
  // True once nothing of the attempt is open and nothing reads or writes a shard any more.
  bool stopped() const;

 private:
  struct MoveState {
    std::vector<uint64_t> digests;  // of the chunks; only in a move that is its own origin
    int slices_left = 0;
    std::vector<int> dependents;  // slices that wait for it
    bool done = false;
  };
  struct SliceState {
    int waits = 0;  // unfinished moves that bring what it reads
    bool admitted = false;
    int operations = 0;             // unfinished, of the transport
    SlicePlace place;               // of packed bytes on their way
    Runs runs;                      // where the bytes lie if they are not packed
    std::vector<uint64_t> digests;  // on their way
    bool done = false;
  };
  using Then = absl::AnyInvocable<void()>;

  bool halted() const { return failed_ || *stopping_; }
  void Fail(const absl::Status& status);
  // Returns false and fails the mover if a buffer was truncated, or its lender has gone, under the
  // work that has just ended. Nothing more is read then.
  bool MemoryHolds();
  // BUFFER_TRUNCATED, SOURCE_LOST, or as ModifyWatch::Check().
  absl::Status CheckMemory() const;
  absl::Status CheckBeforeReading(int slice) const;
  absl::Status CheckModified() const;
  void Advance();
  void StartWindow(int32_t window);
  void AdmitStreams();
  void Admit(int slice);
  bool Place(int slice);
  void AdmitLocal();
  void Begin(int slice);
  void SliceDone(int slice);
  void MoveDone(int move);

  // mover_slices.cc: what happens to one slice.
  std::vector<SlicePart> PartsOf(int slice);
  Device* DeviceOf(int slice) const;
  MoverBytes::Link& LinkOf(int slice);
  bool IsPacked(int slice) const;
  void BeginLocal(int slice);
  void BeginSend(int slice);
  void Packed(int slice);
  void SendWhole(int slice);
  void SendSlice(int slice);
  void BeginReceive(int slice);
  void ReceivedWhole(int slice);
  void Received(int slice);
  Device::Done OnDevice(absl::AnyInvocable<void(const Mismatch&)> then);
  PeerGroup::Done OnTransfer(int slice, Then then);
  const std::string& BlamedFor(const absl::Status& status, int slice) const;
  void Mismatched(int slice, const Mismatch& mismatch);
  void CheckSources();
  bool CheckTwins();
  std::vector<int> ReadFromSource(const ChunkName& chunk) const;

  MoveList list_;
  const MessageList& messages_ = list_.messages;
  const std::vector<std::string> peer_names_;
  std::vector<std::string> peer_addresses_;
  Options options_;
  Transport* const transport_;
  const LocalDevices devices_;
  Events events_;

  std::vector<MoveState> moves_;
  std::vector<SliceState> slices_;
  std::vector<Timestamp> started_at_;  // per window
  WindowSchedule schedule_;
  SlicePlaces places_;
  std::unique_ptr<PeerGroup> group_;
  int self_ = 0;  // in peer_names_
  MoverBytes bytes_;
  std::pair<int32_t, int> next_stream_;  // the next to admit: window, index in its order
  int streams_in_flight_ = 0;
  std::deque<int> local_ready_;
  int local_in_flight_ = 0;
  int jobs_ = 0;  // given to the device, not drained
  // By local device: the files of the source.
  const std::vector<std::vector<const MappedFile*>> source_files_;
  std::optional<WriteWatch> writes_;  // into the source, since Open()
  std::vector<int> checked_;          // moves whose sources Verify() hashes again
  size_t next_check_ = 0;
  int checks_in_flight_ = 0;
  bool checking_ = false;
  bool failed_ = false;
  const std::shared_ptr<std::atomic<bool>> stopping_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace remesh::worker
