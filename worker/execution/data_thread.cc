// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/data_thread.h"

#include <chrono>
#include <utility>

#include "base/check.h"
#include "worker/device/host_device.h"

namespace remesh::worker {

namespace {

// How often the thread polls while a mover is open, even if nothing wakes it: a device in a state
// of error sends no wake-up.
constexpr std::chrono::milliseconds kLookEvery{20};

}  // namespace

DataThread::DataThread(std::unique_ptr<Transport> transport,
                       std::vector<std::unique_ptr<Device>> devices)
    : transport_(std::move(transport)),
      name_(transport_->name()),
      stream_name_(transport_->stream_name()),
      address_(transport_->address()),
      windowed_(transport_->windowed()),
      gathers_(transport_->gathers()),
      encrypts_(transport_->encrypts()),
      keeps_for_(transport_->keeps_for()),
      devices_(std::move(devices)),
      thread_([this] { Run(); }) {
  REMESH_CHECK(!devices_.empty());
}

std::vector<std::unique_ptr<Device>> HostMemory(int copy_threads, Transport* woken) {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(std::make_unique<HostDevice>(copy_threads, [woken] { woken->Wake(); }));
  return devices;
}

LocalDevices DataThread::devices() const {
  std::vector<Device*> devices;
  for (const auto& device : devices_) devices.push_back(device.get());
  return LocalDevices(std::move(devices));
}

DataThread::~DataThread() {
  closing_ = true;
  transport_->Wake();
  thread_.join();
}

void DataThread::Open(const std::string& attempt, Opening opening,
                      absl::AnyInvocable<void(absl::Status)> opened) {
  Post([this, attempt, opening = std::make_unique<Opening>(std::move(opening)),
        opened = std::move(opened)]() mutable {
    if (closing_) return opened(absl::CancelledError("the worker stops"));
    opening->options.slices_done = slices_.Add(attempt, opening->id);
    auto mover = std::make_unique<Mover>(std::move(opening->moves), std::move(opening->peer_names),
                                         opening->options, transport_.get(), devices(),
                                         std::move(opening->events));
    const absl::Status status =
        mover->Open(opening->self, std::move(opening->peers), opening->lasting);
    if (status.ok()) {
      REMESH_CHECK(movers_.try_emplace(attempt, std::move(mover)).second);
    } else {
      mover->Stop();
      mover.reset();
      slices_.Drop(attempt);
    }
    opened(status);
  });
}

void DataThread::Grant(const std::string& attempt, int32_t until) {
  Post([this, attempt, until] {
    if (const auto it = movers_.find(attempt); it != movers_.end()) it->second->Grant(until);
  });
}

void DataThread::Verify(const std::string& attempt) {
  Post([this, attempt] {
    if (const auto it = movers_.find(attempt); it != movers_.end()) it->second->Verify();
  });
}

void DataThread::LookAgain(const std::string& attempt, const ChunkName& chunk,
                           absl::AnyInvocable<void(absl::Status)> looked) {
  Post([this, attempt, chunk, looked = std::move(looked)]() mutable {
    const auto it = movers_.find(attempt);
    if (it == movers_.end()) return looked(absl::OkStatus());
    it->second->LookAgain(chunk, std::move(looked));
  });
}

void DataThread::AskWaits(const std::string& attempt, absl::AnyInvocable<void(absl::Status)> said) {
  Post([this, attempt, said = std::move(said)]() mutable {
    const auto it = movers_.find(attempt);
    said(it == movers_.end() ? absl::OkStatus() : it->second->Waits());
  });
}

void DataThread::Stop(const std::string& attempt, absl::AnyInvocable<void()> stopped, bool well) {
  Post([this, attempt, well, stopped = std::move(stopped)]() mutable {
    const auto it = movers_.find(attempt);
    if (it == movers_.end()) return stopped();
    it->second->Stop(well);
    stopping_[attempt].push_back(std::move(stopped));
  });
}

void DataThread::AwaitLasting(const std::string& name) {
  Post([this, name] { transport_->AwaitLasting(name); });
}

void DataThread::DropLasting(const std::string& name) {
  Post([this, name] { transport_->DropLasting(name); });
}

void DataThread::Post(Task task) {
  {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  transport_->Wake();
}

bool DataThread::RunTasks() {
  std::vector<Task> tasks;
  {
    absl::MutexLock lock(&mutex_);
    tasks.swap(tasks_);
  }
  for (Task& task : tasks) task();
  return !tasks.empty();
}

bool DataThread::ReapStopped() {
  bool any = false;
  for (auto it = stopping_.begin(); it != stopping_.end();) {
    const auto current = it++;
    const auto mover = movers_.find(current->first);
    if (!mover->second->stopped()) continue;
    movers_.erase(mover);
    slices_.Drop(current->first);
    Stopped waiting = std::move(current->second);
    stopping_.erase(current);
    for (auto& stopped : waiting) stopped();
    any = true;
  }
  return any;
}

void DataThread::Run() {
  bool stopping_all = false;
  while (true) {
    bool busy = RunTasks();
    busy |= transport_->Progress();
    for (const auto& device : devices_) busy |= device->Drain();
    busy |= ReapStopped();
    if (closing_ && !std::exchange(stopping_all, true)) {
      for (auto& [attempt, mover] : movers_) {
        mover->Stop();
        stopping_[attempt];
      }
      continue;
    }
    if (closing_ && movers_.empty() && !busy) return;
    if (!busy) transport_->Wait(movers_.empty() ? std::chrono::seconds(1) : kLookEvery);
  }
}

}  // namespace remesh::worker
