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
#include "worker/transport/transport.h"

namespace remesh::worker {

// The one thread that drives a transport, the device's results and every mover. It sleeps while
// nothing happens. Its methods are thread-safe and answer by callbacks, which run on the thread and
// must not block. An attempt is named by any string. It knows its transport's traits by heart, as other
// threads ask for them: it has more than 12 fields.
class DataThread {
 public:
  struct Opening {
    MoveList moves;
    std::vector<std::string> peer_names;
    int self = 0;
    std::vector<Peer> peers;
    Lasting lasting;
    Mover::Options options;
    Mover::Events events;
  };

  // `devices` are the host's by local index, or one for all; they wake the transport.
  DataThread(std::unique_ptr<Transport> transport, std::vector<std::unique_ptr<Device>> devices);
  // Stops every mover and waits until it has; no event follows.
  ~DataThread();

  // Any thread may do with them what any may; see Device.
  LocalDevices devices() const;
  bool windowed() const { return windowed_; }
  bool gathers() const { return gathers_; }
  bool encrypts() const { return encrypts_; }
  std::chrono::milliseconds keeps_for() const { return keeps_for_; }
  const std::string& transport_name() const { return name_; }
  const std::string& transport_address() const { return address_; }

  // REQUIRES: no mover `attempt` is open.
  void Open(const std::string& attempt, Opening opening,
            absl::AnyInvocable<void(absl::Status)> opened);
  // Nothing happens unless the mover is open.
  void Grant(const std::string& attempt, int32_t until);
  void Verify(const std::string& attempt);
  // See Mover::LookAgain(); OK at once where the mover is not open.
  void LookAgain(const std::string& attempt, const ChunkName& chunk,
                 absl::AnyInvocable<void(absl::Status)> looked);
  // Ends a mover, as Mover::Stop(); `stopped` runs when nothing of it is left, at once if it is not
  // open. No event follows.
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
  const std::string address_;
  const bool windowed_;
  const bool gathers_;
  const bool encrypts_;
  const std::chrono::milliseconds keeps_for_;

  absl::Mutex mutex_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> closing_ = false;

  // The thread's own.
  const std::vector<std::unique_ptr<Device>> devices_;
  std::map<std::string, std::unique_ptr<Mover>> movers_;
  std::map<std::string, Stopped> stopping_;

  std::thread thread_;  // last: it uses all of the above
};

// The host's memory, for all local devices.
std::vector<std::unique_ptr<Device>> HostMemory(int copy_threads, Transport* woken);

}  // namespace remesh::worker
