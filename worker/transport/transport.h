// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/check.h"

namespace remesh::worker {

// Names one message between two hosts of a peer group; both ends derive it from their programs.
// Opaque to transports, unique within a group and direction.
struct MessageTag {
  uint32_t window = 0;
  uint32_t from_device = 0;
  uint32_t to_device = 0;
  uint32_t index = 0;  // of what travels at once of the pair's message

  friend auto operator<=>(const MessageTag&, const MessageTag&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const MessageTag& t) {
    return H::combine(std::move(state), t.window, t.from_device, t.to_device, t.index);
  }
};

// Random bytes (16) that only the workers of one attempt know. A message with another token is
// refused unread.
using AttemptToken = std::string;

// Where the bytes of one message lie, in the order in which they travel.
using ConstRuns = std::vector<std::span<const std::byte>>;
using Runs = std::vector<std::span<std::byte>>;

// A member of a peer group as the planner's peer table tells it.
struct Peer {
  std::string address;     // what Transport::address() said there
  AttemptToken token;      // of that peer's incarnation in this attempt
  int devices = 0;         // of the attempt, there; tags count devices through the peer table
  bool encrypted = false;  // what goes to it and comes from it. REQUIRES: Transport::encrypts()
};

// Connections that are dear to make: those of one attempt may serve later ones, one after the other.
struct Lasting {
  std::string name;     // theirs alone, the same on all hosts; empty: they end with the attempt
  std::string among;    // between which lives of which hosts, with how many devices
  bool reused = false;  // an earlier attempt made them, and every host has kept them
};

// The connections among the hosts of one attempt. Every posted operation ends exactly once, by its
// callback, inside Transport::Progress(): OK, UNAVAILABLE (peer lost; the message names it),
// INVALID_ARGUMENT (sizes differ between the ends), or CANCELLED. Until then its buffer belongs to
// the transport; from then on the transport never touches it again.
//
// A sender cannot fill its receiver's memory: of the messages of a pair that have no Receive() yet,
// those whose Send() has ended OK have at most kAheadBytesMax in all (empty messages aside); the
// others end once they are received.
class PeerGroup {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;

  static constexpr int64_t kAheadBytesMax = int64_t{1} << 20;

  // REQUIRES: quiesced().
  virtual ~PeerGroup() = default;

  // Sends `data` to peer `peer` (index in the table). Messages of different tags may overtake each
  // other. Zero bytes are legal.
  virtual void Send(int peer, const MessageTag& tag, std::span<const std::byte> data,
                    Done done) = 0;

  // Receives exactly buffer.size() bytes of the message `tag` of `peer`, wherever possible straight
  // into `buffer`.
  virtual void Receive(int peer, const MessageTag& tag, std::span<std::byte> buffer, Done done) = 0;

  // The same for a message whose bytes lie in several runs, which need not be the other end's.
  // REQUIRES: Transport::gathers().
  virtual void SendRuns(int peer, const MessageTag& tag, ConstRuns runs, Done done) {
    REMESH_CHECK(false);
  }
  virtual void ReceiveRuns(int peer, const MessageTag& tag, Runs runs, Done done) {
    REMESH_CHECK(false);
  }

  // A link may start all operations of a window at once (NCCL: one group). Then windowed() is true:
  // before the first operation Expect() says how many each window will have, in rising windows; a
  // message travels at once, at least one byte of it; and no operation of a window starts before all of
  // that window are posted and the window before has started.
  virtual bool windowed() const { return false; }
  virtual void Expect(std::vector<int32_t> operations) {}

  // Instead of Abort(), when every operation of every host has ended OK and no host has another one:
  // endpoints close. Whether lasting connections stay, idle.
  virtual bool Rest() {
    Abort();
    return false;
  }
  // After Rest(), when the attempt has ended well: what stayed may serve another that names it. Then as
  // Abort(), which ends what stayed, too.
  virtual void Keep() { Abort(); }

  // Starts to end everything: pending operations finish CANCELLED, endpoints close, later
  // operations finish CANCELLED. Idempotent.
  virtual void Abort() = 0;

  // True once Abort() is complete: no endpoint of the group is open, nothing can write into any
  // buffer any more.
  virtual bool quiesced() const = 0;
};

// Moves bytes between host processes. Not thread-safe: one thread calls everything, and callbacks
// run on it.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;  // "memory", "ucx", "nccl": the metrics label

  // How peers reach this transport; stable for its life.
  virtual std::string address() const = 0;

  // Joins the attempt in which this host is `peers[self]`. Messages that arrive for a token before
  // its group opens wait. Errors: INVALID_ARGUMENT for an unusable address or token; UNAVAILABLE
  // never: a peer that cannot be reached fails its operations.
  virtual absl::StatusOr<std::unique_ptr<PeerGroup>> Open(int self, std::vector<Peer> peers) = 0;

  // The same, with lasting connections where the transport has them. Others of them that are kept end.
  // Errors also: FAILED_PRECONDITION (COMMUNICATORS_GONE), those to be reused are not here.
  virtual absl::StatusOr<std::unique_ptr<PeerGroup>> OpenLasting(int self, std::vector<Peer> peers,
                                                                 const Lasting& lasting) {
    return Open(self, std::move(peers));
  }
  // They are to be reused by an attempt that is being prepared: until then kept ones stay, however long
  // that takes; DropLasting() where it comes to nothing.
  virtual void AwaitLasting(const std::string& name) {}
  // Ends kept ones; nothing happens to those that a group has.
  virtual void DropLasting(const std::string& name) {}
  // For how long they are kept at least; 0: not at all.
  virtual std::chrono::milliseconds keeps_for() const { return {}; }

  // Whether groups are windowed().
  virtual bool windowed() const { return false; }

  // Whether groups take messages in runs: what lies in runs that are not too short need not be
  // packed for them.
  virtual bool gathers() const { return false; }

  // Whether it can encrypt what goes to peers.
  virtual bool encrypts() const { return false; }

  // Advances everything without blocking; returns whether anything happened.
  virtual bool Progress() = 0;

  // Sleeps until Progress() may have work, Wake() is called, or `timeout` passed.
  virtual void Wait(std::chrono::milliseconds timeout) = 0;

  // Ends a Wait() that runs now or, if none does, the next one. The one call that any thread may
  // make.
  virtual void Wake() = 0;
};

}  // namespace remesh::worker
