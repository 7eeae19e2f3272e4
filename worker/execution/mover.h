// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "worker/device/copy_pool.h"
#include "worker/execution/messages.h"
#include "worker/execution/moves.h"
#include "worker/execution/slot_pool.h"
#include "worker/execution/window_schedule.h"
#include "worker/transport/transport.h"

namespace remesh {

// Bytes that an attempt has moved so far on this host.
struct MoverBytes {
  int64_t sent = 0;             // to other hosts
  int64_t received = 0;         // from other hosts, verified
  int64_t copied = 0;           // inside the host
  int64_t pieces_verified = 0;  // of those received
};

// A window is done on this host.
struct WindowReport {
  int32_t window = 0;
  MoverBytes bytes;       // in all so far
  Timestamp duration{0};  // since the window started
};

// Moves the bytes of one attempt on one host. One thread calls everything: the one that drives the
// transport and drains the copy pool; all copying, packing and hashing happens on the pool.
//
// Pieces to and from other hosts are admitted strictly in the program's order, which all hosts
// share, within a bound on pieces and on buffers for packed ones. So the earliest unfinished piece
// of all is admitted at both of its ends, and no two hosts wait for each other.
// What happens to a piece, step by step: it has more than 25 methods and more than 12 fields.
class Mover {
 public:
  struct Options {
    int pieces_in_flight = 32;
    int64_t staging_bytes = int64_t{64} << 20;  // for packed pieces
    const Clock* clock = &SteadyClock();
  };
  struct Events {
    absl::AnyInvocable<void(const WindowReport&)> window_done;  // in order
    absl::AnyInvocable<void(absl::Status)> failed;              // at most once; no event follows
    absl::AnyInvocable<void(absl::Status)>
        verified;  // answers Verify(); an error is the last event
  };

  // What list.slots must hold.
  static SlotShape SlotsFor(const MoveList& list, const Options& options);

  // `pool` and `transport` must outlive the mover. peer_names: for errors. REQUIRES: list.slots of
  // at least SlotsFor(); null for 0 bytes.
  Mover(MoveList list, std::vector<std::string> peer_names, const Options& options,
        Transport* transport, CopyPool* pool, Events events);
  // REQUIRES: stopped().
  ~Mover();

  // Joins the attempt; first.
  absl::Status Open(int self, std::vector<Peer> peers);
  // Windows [0, until) may start.
  void Grant(int32_t until);
  // Hashes again what was read from the source generation: OK, or ABORTED (SOURCE_MODIFIED), or
  // FAILED_PRECONDITION (BUFFER_TRUNCATED), which may also be why the mover failed() before. Every
  // host is done by now: the connections close. REQUIRES: every window is done here.
  void Verify();
  // Ends everything; no event follows.
  void Stop();
  // Nothing of the attempt is open, nothing reads or writes any shard any more.
  bool stopped() const;

 private:
  struct PieceRef {
    int move = 0;
    int piece = 0;
    int slot = -1;
  };
  struct State {                    // of a move
    std::vector<Box> pieces;        // from its window's start on
    std::vector<uint64_t> digests;  // of each piece; the origin's
    int left = 0;                   // pieces not done
    int waits = 0;                  // moves in `after` not done
    std::vector<PieceRef> parked;   // admitted pieces that wait for those
    std::vector<int> dependents;    // moves that wait for this one
    bool done = false;
  };
  using Then = absl::AnyInvocable<void()>;

  bool halted() const { return failed_ || *stopping_; }
  void Fail(const absl::Status& status);
  // False, and failed, when a buffer was truncated under what has just been done with it.
  bool MemoryHolds();
  absl::Status CheckMemory() const;
  void Advance();
  void StartWindow(int32_t window);
  void StartMove(int move);
  void AdmitRemote();
  void AdmitLocal();
  void Begin(PieceRef ref);
  void PieceDone(PieceRef ref);
  void MoveDone(int move);

  // mover_pieces.cc: what happens to one piece.
  bool NeedsSlot(int move, int piece) const;
  void BeginLocal(PieceRef ref);
  void BeginSend(PieceRef ref);
  void SendPiece(PieceRef ref, std::span<const std::byte> bytes);
  void BeginReceive(PieceRef ref);
  void Received(PieceRef ref, std::span<const std::byte> bytes);
  void Release(PieceRef ref);
  void OutgoingDigest(PieceRef ref, uint64_t digest);
  void PostTableReceive(int message);
  void TableArrived(int message);
  void Settle(int message, int index);
  void RunJob(absl::AnyInvocable<void()> work, Then then);
  PeerGroup::Done OnTransfer(int peer, Then then);
  void CheckSources();

  MoveList list_;
  const std::vector<std::string> peer_names_;
  Options options_;
  Transport* const transport_;
  CopyPool* const pool_;
  Events events_;

  std::vector<State> states_;               // per move
  std::vector<std::pair<int, int>> range_;  // per window: its moves [first, second)
  std::vector<Timestamp> started_at_;       // per window
  MessageList messages_;
  WindowSchedule schedule_;
  SlotPool slots_;
  std::unique_ptr<PeerGroup> group_;
  MoverBytes bytes_;
  PieceRef next_remote_;  // the next to admit
  int remote_in_flight_ = 0;
  std::deque<PieceRef> local_ready_;
  int local_in_flight_ = 0;
  int jobs_ = 0;  // given to the pool, not drained
  PieceRef next_check_;
  int checks_in_flight_ = 0;
  bool checking_ = false;
  bool failed_ = false;
  const std::shared_ptr<std::atomic<bool>> stopping_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace remesh
