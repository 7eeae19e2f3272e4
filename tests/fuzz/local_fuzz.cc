// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "absl/time/clock.h"
#include "base/fd.h"
#include "tests/fuzz/buffer_folder.h"
#include "tests/fuzz/inputs.pb.h"
#include "tests/fuzz/run_on.h"
#include "tests/fuzz/target.h"
#include "worker/local/local_calls.h"
#include "worker/store/handle_table.h"

namespace remesh::fuzz {

using worker::LocalCalls;

namespace {

// A worker's buffers between the planner and trainers, without executions.
class LocalWorld {
 public:
  ~LocalWorld() {
    files_.Stop();
    loans_.Stop();
    strand_.Stop();
  }

  void Do(const LocalInput::Call& call) {
    RunOn(strand_, [&] { DoNow(call); });
    RunOn(files_, [] {});  // what it reserves is there, or not
    RunOn(loans_, [] {});
    RunOn(strand_, [] {});
  }

  // Every call was answered, and what is held is found again.
  void End() {
    RunOn(strand_, [this] {
      calls_.Close();
      buffers_.Close();
    });
    RunOn(files_, [] {});
    loans_.Stop();  // also ends what is opened in portions
    RunOn(strand_, [] {});
    REMESH_CHECK(waiting_ == 0);
    REMESH_CHECK(store_->bytes() <= BufferFolder::kMemoryBytes);
    const auto again = folder_.Open();
    REMESH_CHECK(again->notes().empty());
    REMESH_CHECK(again->bytes() == store_->bytes());
    const auto held = store_->List();  // what is lent ends with the worker
    REMESH_CHECK(
        static_cast<ptrdiff_t>(again->List().size()) ==
        std::count_if(held.begin(), held.end(), [](const auto* one) { return !one->lent; }));
    for (const worker::Generation* one : again->List())
      REMESH_CHECK(one->write() == store_->Find(one->state(), one->number())->write());
  }

 private:
  void DoNow(const LocalInput::Call& call) {
    switch (call.what_case()) {
      case LocalInput::Call::kCommand:
        return Execute(call.command());
      case LocalInput::Call::kAllocate:
        return calls_.Allocate(++last_, call.allocate(), /*user=*/0, Waits());
      case LocalInput::Call::kGetShards:
        return calls_.GetShards(++last_, call.get_shards(), /*user=*/0, Waits());
      case LocalInput::Call::kSeal:
        return Seal(call.seal());
      case LocalInput::Call::kUnseal:
        return Answered(buffers_.Unseal(call.unseal()).status());
      case LocalInput::Call::kRelease:
        return Answered(buffers_.Release(call.release()));
      case LocalInput::Call::kCancel:
        return calls_.Cancel(call.cancel());
      case LocalInput::Call::kLend:
        return Lend(call.lend());
      case LocalInput::Call::kGetHost:
        return GetHost(call.get_host());
      case LocalInput::Call::kProgram:
      case LocalInput::Call::WHAT_NOT_SET:
        return;
    }
  }

  void GetHost(const v1::GetHostRequest& request) {
    ++waiting_;
    calls_.GetHost(++last_, request, 0, [this](const absl::StatusOr<v1::GetHostResponse>& host) {
      --waiting_;
      Answered(host.status());
    });
  }

  void Seal(const v1::SealRequest& request) {
    const auto sealed = buffers_.Seal(request);
    Answered(sealed.status());
    if (sealed.ok()) calls_.Sealed(request.state(), sealed->generation());
  }

  void Lend(v1::LendRequest request) {
    for (v1::LentMemory& memory : *request.mutable_memories()) {
      if (memory.has_ipc() || !memory.token().empty()) continue;
      Fd file(memfd_create("lent", MFD_CLOEXEC | MFD_ALLOW_SEALING));
      REMESH_CHECK(ftruncate(file.get(), 4096) == 0);
      REMESH_CHECK(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
      memory.set_token(handles_.Bring(std::move(file), 0, absl::Now()));
    }
    ++waiting_;
    calls_.Lend(++last_, request, 0, [this](const absl::StatusOr<v1::SealResponse>& response) {
      --waiting_;
      Answered(response.status());
    });
  }

  void Execute(const v1::AttachResponse& command) {
    if (command.has_assign_state()) {
      buffers_.Assign(command.assign_state().assignment());
      calls_.Retry(command.assign_state().assignment().state());
    }
    if (command.has_commit_write()) {
      buffers_.CommitWrite(command.commit_write());
      calls_.Retry(command.commit_write().state());
    }
    if (command.has_forget_state()) {
      buffers_.Forget(command.forget_state().state(), command.forget_state().state_uid());
      calls_.Retry(command.forget_state().state());
    }
    if (command.has_retire()) {
      const v1::Retire& retire = command.retire();
      store_->Drop(retire.state(), retire.generation());
      buffers_.Retired(retire.state(), retire.state_uid(), retire.generation());
      calls_.Retry(retire.state());
    }
    if (command.has_welcome()) {
      host_.OnWelcome(command.welcome());
      calls_.Welcomed();
      buffers_.OnWelcome();
      calls_.SendWanted();
    }
  }

  LocalCalls::Done<v1::ShardsResponse> Waits() {
    ++waiting_;
    return [this](const absl::StatusOr<v1::ShardsResponse>& response) {
      --waiting_;
      Answered(response.status());
    };
  }

  static void Answered(const absl::Status& status) {
    if (!status.ok()) CheckRefusal(status);
  }

  Strand strand_, files_, loans_;
  BufferFolder folder_;
  worker::HandleTable handles_;
  std::unique_ptr<worker::BufferStore> store_ = folder_.Open(&handles_);
  worker::FilesQueue queue_{&strand_, &files_};
  worker::FilesQueue loan_queue_{&strand_, &loans_};
  worker::StateBuffers buffers_{
      "a",
      store_.get(),
      &queue_,
      &loan_queue_,
      {.moved_by = [](const std::string&) { return ""; },
       .changed = [](const v1::StateManifest&) {},
       .reserved = [this](const std::string& state,
                          const absl::Status& status) { calls_.Reserved(state, status); }}};
  worker::HostFacts host_;
  LocalCalls calls_{&buffers_, &host_, [](const std::string&) {}};
  LocalCalls::CallId last_ = 0;
  int waiting_ = 0;
};

}  // namespace
}  // namespace remesh::fuzz

REMESH_FUZZ_PROTO(remesh::fuzz::LocalInput, input) {
  remesh::fuzz::LocalWorld world;
  for (int i = 0; i < input.calls_size() && i < 64; ++i) world.Do(input.calls(i));
  world.End();
}
