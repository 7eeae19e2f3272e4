// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/device.h"
#include "worker/execution/mover.h"
#include "worker/execution/slice_counters.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

// The one thread that drives a transport, the devices and every mover. It sleeps while there is
// nothing to do. All methods are thread-safe. They answer through callbacks, which run on this
// thread and must not block. Callers may name an attempt by any string.
class DataThread {
 public:
  struct Opening {
    v1::AttemptId id;
    MoveList moves;
    std::vector<std::string> peer_names;
    int self = 0;
    std::vector<Peer> peers;
    Lasting lasting;
    Mover::Options options;
    Mover::Events events;
  };

  // `devices` has the host's devices by local index, or one device for all. They wake the transport
  // when they have results.
  DataThread(std::unique_ptr<Transport> transport, std::vector<std::unique_ptr<Device>> devices);
  // Stops every mover and waits until all have stopped; no event follows.
  ~DataThread();

  // Other threads may make only those calls that Device allows to any thread.
  LocalDevices devices() const;
  bool windowed() const { return windowed_; }
  bool gathers() const { return gathers_; }
  bool encrypts() const { return encrypts_; }
  std::chrono::milliseconds keeps_for() const { return keeps_for_; }
  const std::string& transport_name() const { return name_; }
  const std::string& stream_name() const { return stream_name_; }
  const std::string& transport_address() const { return address_; }
  // See SliceCounters::Report().
  void AddSlices(v1::Heartbeat& beat) const { slices_.Report(beat); }

  // REQUIRES: no mover is open for `attempt`.
  void Open(const std::string& attempt, Opening opening,
            absl::AnyInvocable<void(absl::Status)> opened);
  // Do nothing if the mover is not open.
  void Grant(const std::string& attempt, int32_t until);
  void Verify(const std::string& attempt);
  // See Mover::LookAgain(). `looked` gets OK at once if the mover is not open.
  void LookAgain(const std::string& attempt, const ChunkName& chunk,
                 absl::AnyInvocable<void(absl::Status)> looked);
  // See Mover::Waits(). `said` gets OK at once if the mover is not open.
  void AskWaits(const std::string& attempt, absl::AnyInvocable<void(absl::Status)> said);
  // Ends a mover; see Mover::Stop(). `stopped` runs when nothing of the mover is left, or at once
  // if it is not open. No event follows.
  void Stop(const std::string& attempt, absl::AnyInvocable<void()> stopped, bool well = false);
  // See Transport.
  void AwaitLasting(const std::string& name);
  void DropLasting(const std::string& name);

 private:
  using Task = absl::AnyInvocable<void()>;
  using Stopped = std::vector<absl::AnyInvocable<void()>>;

  void Post(Task task);
  void Run();
  bool RunTasks();
  bool ReapStopped();

  const std::unique_ptr<Transport> transport_;
  const std::string name_;
  const std::string stream_name_;
  const std::string address_;
  const bool windowed_;
  const bool gathers_;
  const bool encrypts_;
  const std::chrono::milliseconds keeps_for_;

  absl::Mutex mutex_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> closing_ = false;
  SliceCounters slices_;

  // The thread's own.
  const std::vector<std::unique_ptr<Device>> devices_;
  std::map<std::string, std::unique_ptr<Mover>> movers_;
  std::map<std::string, Stopped> stopping_;

  std::thread thread_;  // last: it uses all of the above
};

// One device for all local devices: the host's memory. It wakes `woken` when it has results.
std::vector<std::unique_ptr<Device>> HostMemory(int copy_threads, Transport* woken);

}  // namespace remesh::worker
