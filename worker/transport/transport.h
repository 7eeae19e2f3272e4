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

// Names one message between two hosts of a peer group. Both ends derive the tag from their
// programs. It is opaque to transports, and unique within a group and direction.
struct MessageTag {
  uint32_t window = 0;
  uint32_t from_device = 0;
  uint32_t to_device = 0;
  uint32_t index = 0;  // of a slice, or of its digests, in the pair's message

  friend auto operator<=>(const MessageTag&, const MessageTag&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const MessageTag& t) {
    return H::combine(std::move(state), t.window, t.from_device, t.to_device, t.index);
  }
};

// 16 random bytes that only the workers of one attempt know. A message with another token is
// refused unread.
using AttemptToken = std::string;

// Where the bytes of one message lie, in the order in which they travel.
using ConstRuns = std::vector<std::span<const std::byte>>;
using Runs = std::vector<std::span<std::byte>>;

// A member of a peer group, as the planner's peer table describes it.
struct Peer {
  std::string address;     // Transport::address() of that host
  AttemptToken token;      // of that peer's incarnation in this attempt
  int devices = 0;         // that the attempt has there
  bool encrypted = false;  // traffic in both directions. REQUIRES: Transport::encrypts()
  // Both hosts have the link that starts the messages of a window at once (NCCL), so messages
  // between them go by it. REQUIRES: Transport::windowed(); a host with such a peer is one itself.
  bool windowed = false;
  // If the peers are not all hosts of the attempt (WindowedHosts): the number of the host's first
  // device in tags, and the rank of that device if the host is windowed. The others follow.
  uint32_t first_device = 0;
  int first_rank = -1;
};

// All windowed hosts of an attempt, where its peers are only some hosts of it. The first of the
// windowed hosts has them all as peers, and each of them has the first one.
struct WindowedHosts {
  int hosts = 0;  // 0: the peers are all hosts of the attempt, and number devices in their order
  int ranks = 0;  // devices of these hosts
  int place = 0;  // index of this host among them
  bool beside_streams = false;  // the attempt also has hosts that are not windowed
};

// Names connections that are expensive to make. Those of one attempt may serve later attempts, one
// after the other.
struct Lasting {
  std::string name;   // unique, the same on all hosts; empty: the connections end with the attempt
  std::string among;  // the lives of the windowed peers, and how many devices each has
  bool reused = false;  // an earlier attempt made them, and every host has kept them
  WindowedHosts whole = {};
};

// The connections among the hosts of one attempt. Every posted operation ends exactly once, by its
// callback, inside Transport::Progress(): OK, UNAVAILABLE (peer lost; the message names it),
// INVALID_ARGUMENT (sizes differ between the ends), or CANCELLED. Until then its buffer belongs to
// the transport; afterwards the transport never touches it again.
//
// A sender cannot fill its receiver's memory: of the messages of a pair that have no Receive() yet,
// those whose Send() has ended OK have at most kAheadBytesMax in all (empty messages aside). Every
// other Send() ends once its message is received.
class PeerGroup {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;

  static constexpr int64_t kAheadBytesMax = int64_t{1} << 20;

  // REQUIRES: quiesced().
  virtual ~PeerGroup() = default;

  // Sends `data` to peer `peer` (index in the table). Messages with different tags may overtake
  // each other. Zero bytes are legal.
  virtual void Send(int peer, const MessageTag& tag, std::span<const std::byte> data,
                    Done done) = 0;

  // Receives the message `tag` of `peer`, which must have exactly buffer.size() bytes, straight
  // into `buffer` wherever possible.
  virtual void Receive(int peer, const MessageTag& tag, std::span<std::byte> buffer, Done done) = 0;

  // The same for a message whose bytes lie in several runs. The two ends may have different runs.
  // REQUIRES: Transport::gathers().
  virtual void SendRuns(int peer, const MessageTag& tag, ConstRuns runs, Done done) {
    REMESH_CHECK(false);
  }
  virtual void ReceiveRuns(int peer, const MessageTag& tag, Runs runs, Done done) {
    REMESH_CHECK(false);
  }

  // Operations with windowed peers start together, a window at once (NCCL: one group). The caller
  // says here, before the first operation, how many of them each window will have, by window. Such
  // a message travels in one operation and has at least one byte. No such operation starts before
  // all those of its window are posted and the previous window has started.
  virtual void Expect(std::vector<int32_t> operations) {}

  // Closes endpoints after success. Call it instead of Abort() once every operation of every host
  // has ended OK and no host will post another. Returns whether lasting connections stay, idle.
  virtual bool Rest() {
    Abort();
    return false;
  }
  // To be called after Rest() when the attempt has ended well: lasting connections that stayed may
  // serve another attempt that names them. Then does the same as Abort(); Abort() alone ends those
  // connections, too.
  virtual void Keep() { Abort(); }

  // Starts to end everything: pending and later operations finish CANCELLED, and endpoints close.
  // Idempotent.
  virtual void Abort() = 0;

  // True once Abort() is complete: no endpoint of the group is open, and nothing can write into any
  // buffer any more.
  virtual bool quiesced() const = 0;
};

// Moves bytes between host processes. Not thread-safe: one thread calls everything but Wake(), and
// callbacks run on it.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;  // "memory", "ucx", "nccl": the metrics label
  // Name of the link to peers that are not windowed.
  virtual std::string_view stream_name() const { return name(); }

  // The address by which peers reach this transport; stable for its life.
  virtual std::string address() const = 0;

  // Joins the attempt in which this host is `peers[self]`. Messages that arrive for a token before
  // its group opens wait. Errors: INVALID_ARGUMENT for an unusable address or token. A peer that
  // cannot be reached is no error here (never UNAVAILABLE): operations with it fail.
  virtual absl::StatusOr<std::unique_ptr<PeerGroup>> Open(int self, std::vector<Peer> peers) = 0;

  // The same, with lasting connections if the transport has them and several peers are windowed.
  // All other kept connections end then; otherwise all stay. Errors also: FAILED_PRECONDITION
  // (COMMUNICATORS_GONE) if the connections to be reused are not here.
  virtual absl::StatusOr<std::unique_ptr<PeerGroup>> OpenLasting(int self, std::vector<Peer> peers,
                                                                 const Lasting& lasting) {
    return Open(self, std::move(peers));
  }
  // Says that an attempt in preparation will reuse the kept connections `name`. They stay until
  // then, however long that takes; call DropLasting() if the attempt does not come about.
  virtual void AwaitLasting(const std::string& name) {}
  // Ends the kept connections `name`. Connections that a group uses are not affected.
  virtual void DropLasting(const std::string& name) {}
  // How long connections are kept at least; 0: not at all.
  virtual std::chrono::milliseconds keeps_for() const { return {}; }

  // Whether peers may be windowed.
  virtual bool windowed() const { return false; }

  // Whether groups take messages in runs, except with windowed peers. If so, bytes in runs that are
  // not too short need not be packed.
  virtual bool gathers() const { return false; }

  // Whether the transport can encrypt the traffic with peers.
  virtual bool encrypts() const { return false; }

  // Advances everything without blocking; returns whether anything happened.
  virtual bool Progress() = 0;

  // Sleeps until Progress() may have work, Wake() is called, or `timeout` passed.
  virtual void Wait(std::chrono::milliseconds timeout) = 0;

  // Ends the Wait() that runs now or, if none does, the next one. The only call that any thread may
  // make.
  virtual void Wake() = 0;
};

}  // namespace remesh::worker
