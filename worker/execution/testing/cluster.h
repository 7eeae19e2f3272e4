// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "planner/values/element_type.h"
#include "planner/values/packing.h"
#include "worker/device/host_device.h"
#include "worker/execution/mover.h"
#include "worker/execution/testing/program.h"
#include "worker/execution/testing/sim_gpus.h"
#include "worker/store/box_message.h"

// Hosts in one process that run hand-made programs, all on the calling thread except for the
// copies.
namespace remesh::worker {

struct TestArray {
  std::string name;
  planner::Shape shape;
  std::string type;
};

struct TestShard {
  int array = 0;
  int device = 0;  // ordinal
  planner::Box box;
};

// What an attempt moves: each host has `devices_per_host` devices; ids are 100 + ordinal.
struct TestCase {
  int hosts = 2;
  int devices_per_host = 2;
  std::vector<TestArray> arrays;
  std::vector<TestShard> source;
  std::vector<TestShard> target;
  std::vector<TestOperation> operations;
  int windows = 1;
  // By host, with fingerprint "print"; empty: they are made of `operations`.
  std::vector<v1::HostProgram> programs = {};
  bool watched = true;  // whether the kernel reports who modifies the hosts' files

  int host_of(int device) const { return device / devices_per_host; }
};

// Adds operations that bring each element of every target box from its nearest holder: on the same
// device, else on the same host, else on another.
inline void AddNaiveOperations(TestCase& c) {
  int next = 0;
  for (const TestShard& target : c.target) {
    std::vector<TestShard> holders;
    for (const TestShard& source : c.source) {
      if (source.array == target.array) holders.push_back(source);
    }
    std::stable_sort(holders.begin(), holders.end(), [&](const TestShard& a, const TestShard& b) {
      auto far = [&](const TestShard& s) {
        return s.device == target.device                         ? 0
               : c.host_of(s.device) == c.host_of(target.device) ? 1
                                                                 : 2;
      };
      return far(a) < far(b);
    });
    std::vector<planner::Box> taken;
    for (const TestShard& source : holders) {
      const auto common = planner::Intersect(source.box, target.box);
      // Shards of a test overlap wholly or not at all.
      if (!common || std::find(taken.begin(), taken.end(), *common) != taken.end()) continue;
      taken.push_back(*common);
      c.operations.push_back(
          {next++ % c.windows, target.array, *common, source.device, target.device});
    }
  }
  std::stable_sort(c.operations.begin(), c.operations.end(),
                   [](const auto& a, const auto& b) { return a.window < b.window; });
}

class TestHost {
 public:
  // gpus: by host, whether it has GPUs, which exchange with others by a link between devices;
  // empty: none has.
  TestHost(const TestCase& c, int index, std::unique_ptr<Transport> transport,
           Mover::Options options, const std::vector<bool>& gpus = {})
      : index_(index),
        gpus_(gpus.empty() ? std::vector<bool>(c.hosts) : gpus),
        transport_(std::move(transport)),
        options_(options) {
    MakeDevices(c);
    REMESH_CHECK(mkdtemp(directory_.data()) != nullptr);
    source_ = MakeShards(c, c.source, "source");
    target_ = MakeShards(c, c.target, "target");
  }
  ~TestHost() {
    if (mover_ != nullptr) REMESH_CHECK(mover_->stopped());
    std::filesystem::remove_all(directory_);
  }

  // The file of shard `shard` of "source" or "target".
  std::string PathOf(const std::string& side, size_t shard) const {
    return absl::StrCat(directory_, "/", side, shard);
  }

  // The program, read as it comes over the wire, and bound to this host's memory.
  absl::StatusOr<MoveList> Bind(const TestCase& c) {
    auto devices = AttemptDevices::Make(Prepare(c));
    if (!devices.ok()) return devices.status();
    ProgramReader reader(&*devices, {.fingerprint = "print", .windows = c.windows});
    if (auto status = reader.Add(Chunk(c)); !status.ok()) return status;
    auto program = std::move(reader).Finish();
    if (!program.ok()) return program.status();
    std::vector<std::byte*> staging;
    for (const int64_t bytes : StagingBytes(*program, *devices)) {
      staging_bytes_ += bytes;
      staging_.push_back(Allocate(static_cast<int>(staging_.size()), bytes));
      staging.push_back(staging_.back().get());
    }
    WholeMessages whole{.here = on_gpus()};
    for (const int h : TableOf(c)) whole.with_peer.push_back(Windowed(h));
    auto list = BindMoves(*std::move(program), *devices, source_, target_, staging, whole);
    if (!list.ok()) return list;
    list->in_host_memory = !on_gpus();
    for (const int64_t bytes : LayOutTransit(*list).bytes)
      list->transit.push_back(Allocate(static_cast<int>(list->transit.size()), bytes));
    const int64_t bytes = SlicePlaces::HostBytesFor(*list, options_.limits, transport_->gathers());
    slots_bytes_ = bytes;
    host_bytes_ += bytes;
    list->slots = Memory(bytes);
    for (size_t local = 0; bytes > 0 && local < list->transit.size(); ++local) {
      Device* const device = Devices().Of(static_cast<int>(local));
      list->slots_on.push_back(*device->Register(list->slots->bytes()));
    }
    return list;
  }

  absl::Status Open(const TestCase& c, const std::vector<std::string>& addresses) {
    auto list = Bind(c);
    if (!list.ok()) return list.status();
    std::vector<std::string> names;
    std::vector<Peer> peers;
    const std::vector<int> table = TableOf(c);
    for (const int h : table) {
      names.push_back(absl::StrCat("host-", h));
      peers.push_back({.address = addresses[h],
                       .token = std::string(15, 't') + static_cast<char>('0' + h),
                       .devices = c.devices_per_host,
                       .windowed = Windowed(h),
                       .first_device = static_cast<uint32_t>(h * c.devices_per_host),
                       .first_rank = GpuHostsBefore(h) * c.devices_per_host});
    }
    Mover::Events events;
    events.window_done = [this](const WindowReport& report) {
      REMESH_CHECK(report.window == done_windows);
      ++done_windows;
      bytes = report.bytes;
    };
    events.failed = [this](absl::Status status) { failure = status; };
    events.verified = [this](absl::Status status) { verified = status; };
    Mover::Options options = options_;
    if (c.watched) options.modify_watch = WatchModified();
    mover_ = std::make_unique<Mover>(*std::move(list), names, options, transport_.get(), Devices(),
                                     std::move(events));
    const auto self = std::find(table.begin(), table.end(), index_) - table.begin();
    return mover_->Open(static_cast<int>(self), std::move(peers), {.whole = Whole(c)});
  }

  bool Turn() {
    bool moved = transport_->Progress();
    for (auto& device : devices_) moved |= device->Drain();
    return moved;
  }

  // Read and write the bytes of a shard, wherever they lie.
  std::vector<std::byte> Read(const MappedShards& shards, size_t i) {
    std::vector<std::byte> bytes(shards.shards[i].bytes());
    Transfer(shards, i, bytes.data(), shards.shards[i].data, bytes.size());
    return bytes;
  }
  void Write(const MappedShards& shards, size_t i, const std::vector<std::byte>& bytes) {
    Transfer(shards, i, shards.shards[i].data, bytes.data(), bytes.size());
  }

  bool on_gpus() const { return gpus_[index_]; }
  Mover& mover() { return *mover_; }
  Transport& transport() { return *transport_; }
  // Writes a source shard as another process does, where it can: by its file.
  void WriteAsTrainer(size_t i, const std::vector<std::byte>& bytes) {
    if (on_gpus()) return Write(source(), i, bytes);
    auto file = MappedFile::Open(PathOf("source", i), std::ssize(bytes));
    REMESH_CHECK(file.ok());
    std::copy(bytes.begin(), bytes.end(), file->bytes().begin());
  }
  const MappedShards& source() const { return *source_; }
  const MappedShards& target() const { return *target_; }
  // The most bytes that were in use at once on a local device, or on this host in all.
  int64_t most_bytes(int local) const {
    return dynamic_cast<const SimDevice&>(*devices_[local]).most_bytes();
  }
  int64_t host_bytes() const { return host_bytes_; }
  // Bytes of the host's memory for slices on their way.
  int64_t slots_bytes() const { return slots_bytes_; }
  // Bytes of this host's staging memory.
  int64_t staging_bytes() const { return staging_bytes_; }

  // Staging memory of local device `device`.
  std::byte* staging(int device) { return staging_[device].get(); }

  int done_windows = 0;
  MoverBytes bytes;
  std::optional<absl::Status> failure;
  std::optional<absl::Status> verified;

 private:
  static std::shared_ptr<Scratch> Memory(int64_t bytes) {
    if (bytes == 0) return nullptr;
    auto file = *MappedFile::CreateScratch("/tmp", bytes);
    std::ranges::fill(file.bytes(), std::byte{0xa5});  // as if an earlier attempt had used it
    return std::make_shared<Scratch>(std::move(file), nullptr);
  }

  bool Windowed(int host) const { return gpus_[index_] && gpus_[host]; }
  int GpuHostsBefore(int host) const {
    return static_cast<int>(std::count(gpus_.begin(), gpus_.begin() + host, true));
  }
  // Every second host is told all hosts, as by an older server. The others know only those with
  // which they exchange, and those through which they find each other.
  bool KnowsAll() const { return index_ % 2 == 1; }
  WindowedHosts Whole(const TestCase& c) const {
    if (KnowsAll() || !on_gpus()) return {};
    const int hosts = GpuHostsBefore(c.hosts);
    return {.hosts = hosts,
            .ranks = hosts * c.devices_per_host,
            .place = GpuHostsBefore(index_),
            .beside_streams = hosts < c.hosts};
  }
  // The hosts that this one knows, rising.
  std::vector<int> TableOf(const TestCase& c) const {
    std::set<int> hosts = {index_};
    const bool is_first_gpu = on_gpus() && GpuHostsBefore(index_) == 0;
    for (int h = 0; h < c.hosts; ++h) {
      const bool is_found_first = Windowed(h) && (is_first_gpu || GpuHostsBefore(h) == 0);
      if (KnowsAll() || is_found_first) hosts.insert(h);
    }
    const v1::HostProgram program = Chunk(c);
    for (const int64_t id : program.devices()) {
      hosts.insert(c.host_of(static_cast<int>(id - 100)));
    }
    return {hosts.begin(), hosts.end()};
  }

  // Makes simulated devices, or the host's memory.
  void MakeDevices(const TestCase& c) {
    const auto wake = [this] { transport_->Wake(); };
    if (!on_gpus()) return devices_.push_back(std::make_unique<HostDevice>(2, wake));
    for (int local = 0; local < c.devices_per_host; ++local)
      devices_.push_back(NewSimDevice(index_, local, wake));
  }
  LocalDevices Devices() const {
    std::vector<Device*> devices;
    for (auto& device : devices_) devices.push_back(device.get());
    return LocalDevices(std::move(devices));
  }
  std::shared_ptr<std::byte> Allocate(int local, int64_t bytes) {
    host_bytes_ += bytes;
    return bytes == 0 ? nullptr : *Devices().Of(local)->Allocate(bytes);
  }
  void Transfer(const MappedShards& shards, size_t i, std::byte* to, const std::byte* from,
                size_t bytes) {
    bool done = false;
    Devices()
        .Of(shards.assignment.shards(static_cast<int>(i)).local_device())
        ->Transfer(to, from, static_cast<int64_t>(bytes), [&](const auto& result) {
          REMESH_CHECK(result.ok());
          done = true;
        });
    while (!done) Turn();
  }

  std::shared_ptr<ModifyWatch> WatchModified() const {
    auto watch = std::make_shared<ModifyWatch>();
    REMESH_CHECK(watch->Add(*source_, ModifyWatch::Side::kSource).ok());
    REMESH_CHECK(watch->Add(*target_, ModifyWatch::Side::kTarget).ok());
    return watch;
  }

  // Makes shards, each in a file of its own or in the memory of its device.
  std::shared_ptr<MappedShards> MakeShards(const TestCase& c, const std::vector<TestShard>& all,
                                           const std::string& side) {
    auto shards = std::make_shared<MappedShards>();
    for (const TestArray& array : c.arrays) {
      v1::AssignedArray& message = *shards->assignment.add_arrays();
      message.set_name(array.name);
      message.set_element_type(array.type);
      for (const int64_t extent : array.shape) message.add_shape(extent);
    }
    for (const TestShard& shard : all) {
      if (c.host_of(shard.device) != index_) continue;
      v1::ShardSpec& spec = *shards->assignment.add_shards();
      spec.set_array(shard.array);
      spec.set_local_device(shard.device % c.devices_per_host);
      const int bits = planner::BitWidth(*planner::ParseElementType(c.arrays[shard.array].type));
      const int64_t bytes =
          planner::StoredBytes(std::max<int64_t>(shard.box.element_count() * bits, 1));
      if (on_gpus()) {
        memory_.push_back(Allocate(shard.device % c.devices_per_host, bytes));
        shards->shards.push_back({memory_.back().get(), shard.box, bits});
        continue;
      }
      const std::string path = PathOf(side, shards->files.size());
      host_bytes_ += bytes;
      REMESH_CHECK(CreateReservedFile(path, bytes).ok());
      auto file = MappedFile::Open(path, bytes);
      REMESH_CHECK(file.ok());
      shards->shards.push_back({file->bytes().data(), shard.box, bits});
      shards->file_of.push_back(static_cast<int>(shards->files.size()));
      shards->files.push_back(*std::move(file));
    }
    return shards;
  }

  v1::Prepare Prepare(const TestCase& c) const {
    v1::Prepare prepare;
    if (!KnowsAll()) prepare.set_hosts(c.hosts);
    for (const int h : TableOf(c)) {
      if (h == index_) prepare.set_self(prepare.peers_size());
      v1::PeerEntry& peer = *prepare.add_peers();
      if (!KnowsAll()) peer.set_first_device(h * c.devices_per_host);
      for (int d = 0; d < c.devices_per_host; ++d)
        peer.add_device_ids(100 + h * c.devices_per_host + d);
    }
    return prepare;
  }

  v1::HostProgram Chunk(const TestCase& c) const {
    if (!c.programs.empty()) return c.programs[index_];
    std::vector<proto::NamedProgram::Array> arrays;
    for (const TestArray& array : c.arrays)
      arrays.push_back(
          {array.name, array.shape, planner::BitWidth(*planner::ParseElementType(array.type))});
    std::vector<TestOperation> operations;
    for (const TestOperation& operation : c.operations) {
      if (c.host_of(operation.from) != index_ && c.host_of(operation.to) != index_) continue;
      operations.push_back(operation);
      operations.back().from += 100;
      operations.back().to += 100;
    }
    return TestProgram(std::move(arrays), c.windows).Of(operations, "print", c.operations);
  }

  const int index_;
  const std::vector<bool> gpus_;
  int64_t host_bytes_ = 0;
  int64_t slots_bytes_ = 0;
  int64_t staging_bytes_ = 0;
  std::vector<std::shared_ptr<std::byte>> staging_;  // by local device
  std::vector<std::shared_ptr<std::byte>> memory_;   // of shards
  std::string directory_ = "/dev/shm/remesh_host.XXXXXX";
  std::shared_ptr<MappedShards> source_;
  std::shared_ptr<MappedShards> target_;
  std::unique_ptr<Transport> transport_;
  std::vector<std::unique_ptr<Device>> devices_;
  const Mover::Options options_;
  std::unique_ptr<Mover> mover_;
};

}  // namespace remesh::worker
