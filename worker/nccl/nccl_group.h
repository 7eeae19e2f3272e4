// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "worker/nccl/nccl_api.h"
#include "worker/nccl/nccl_bootstrap.h"
#include "worker/nccl/nccl_link.h"
#include "worker/nccl/nccl_windows.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

struct NcclOptions {
  // The time for all hosts to be there, and again for NCCL to connect them: a fixed part, and a
  // part for each rank. Initialising NCCL takes a minute with a few devices, and minutes with
  // thousands.
  std::chrono::milliseconds connect_timeout{120000};
  std::chrono::milliseconds connect_timeout_per_rank{50};
  // The time for a window, from the end of the one before: NCCL itself waits forever. A host whose
  // peers have no windows may be much later than the others, as its streams may be slow.
  std::chrono::milliseconds window_timeout{60000};
  std::chrono::milliseconds window_timeout_beside_streams{3600000};
  // The time for an abort; see NcclSetup::on_stuck.
  std::chrono::milliseconds abort_timeout{30000};
  // How long communicators are kept idle for the next attempt; 0: not at all.
  std::chrono::milliseconds idle{0};
  // How much longer they stay than the planner is sent, as a Prepare that names them may be on its
  // way.
  std::chrono::milliseconds idle_more{60000};
  int ranks_per_id = 256;  // with more, several hosts make ids and serve those who connect
  NcclLimits limits;
};

// A device that exchanges by NCCL in an attempt.
struct NcclRank {
  uint32_t device = 0;   // its number in tags
  int host = 0;          // index in the peer table
  int local_device = 0;  // on its host, as in GpuStreams
  int rank = 0;          // among the ranks of all hosts
};

struct NcclSetup {
  const NcclApi* api = nullptr;
  GpuStreams* streams = nullptr;   // outlives the group; no other group uses it in the meantime
  PeerGroup* bootstrap = nullptr;  // of the same attempt and peers; see NcclBootstrap
  int self = 0;
  std::vector<std::string> hosts;  // names of the peers, for errors
  std::vector<NcclRank> ranks;     // of the peers, rising; some of this host
  WindowedHosts whole;             // the hosts with ranks; whole.hosts > 0
  NcclOptions options;
  // Asked in Progress() until it returns true; null: the group may connect at once.
  std::function<bool()> may_connect;
  // Says that Progress() has work. Called from any thread, and by callbacks of the bootstrap that
  // come after the group is gone.
  std::function<void()> notify;
  // Called in Progress(), once: an abort did not end in time, so kernels may write forever, and
  // only the end of the process helps.
  std::function<void()> on_stuck;
};

// The exchanges of an attempt by NCCL. Operations work on memory of devices, given by its address
// there, and start window by window (windowed()). All operations of a window end together, inside
// Progress() of the group. An error in a window ends the whole group: operations end UNAVAILABLE
// (NCCL_TIMEOUT, NCCL_FAILED, NCCL_VERSIONS_DIFFER, or a peer is lost) once all is aborted and
// nothing touches their memory any more. Only the time-out notices ends that disagree on a size.
class NcclGroup : public PeerGroup {
 public:
  // Begins to connect. `setup.bootstrap` must live until the group is quiesced, and must be aborted
  // when the group is, in either order. `made`: what TakeLink() of another group with the same
  // setup returned, on all hosts; null: communicators are made.
  explicit NcclGroup(NcclSetup setup, std::unique_ptr<NcclLink> made = nullptr);
  ~NcclGroup() override;

  // Keeps the time. The data thread calls it after notify(), after every Progress() of the
  // bootstrap's transport, and at least every 100 ms. Returns whether anything happened.
  bool Progress();

  void Send(int peer, const MessageTag& tag, std::span<const std::byte> data, Done done) override;
  void Receive(int peer, const MessageTag& tag, std::span<std::byte> buffer, Done done) override;
  void Expect(std::vector<int32_t> operations) override;
  // The bootstrap may end now. Returns false if there is nothing to keep, or NCCL has not connected
  // yet because no window needed it; everything is aborted then.
  bool Rest() override;
  // Gives out what Rest() left, in the state right after connecting, and leaves the group quiesced.
  // Null if nothing is left.
  std::unique_ptr<NcclLink> TakeLink();
  void Abort() override;
  bool quiesced() const override;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Place {
    int rank = 0;
    int host = 0;    // index in the peer table
    int local = -1;  // among this host's ranks
  };

  void Add(bool send, int peer, const MessageTag& tag, std::span<const std::byte> memory,
           Done done);
  void End(Done done, absl::Status status);
  bool Connect();
  void CheckBootstrap();
  bool finished() const;  // connected, and every window is done
  void StartWindows();
  void CollectEnded();
  void WatchAbort();

  const NcclSetup setup_;
  absl::flat_hash_map<uint32_t, Place> places_;  // by device
  const int ids_;                                // 0: the communicators exist already
  TimePoint connect_by_;
  enum class Phase { kMakeId, kGather, kConnected, kResting } phase_ = Phase::kMakeId;
  bool aborted_ = false;
  bool stuck_ = false;
  int64_t unfinished_ = 0;  // callbacks that have not begun
  std::vector<std::pair<Done, absl::Status>> ended_;
  NcclWindows windows_;
  NcclBootstrap bootstrap_;
  std::unique_ptr<NcclLink> link_;  // null once it was taken
};

}  // namespace remesh::worker
