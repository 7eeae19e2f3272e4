// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/server_interceptor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "base/fd.h"

namespace remesh::service {

// Counts the calls that have come and not ended. HTTP/2 bounds those that a client may have open, but a
// call that its client has reset counts no longer while we still work at it: by opening and resetting,
// one connection gave us more to do than we could for minutes ("rapid reset", CVE-2023-44487).
//
// A connection with more than `max` calls that have begun and not ended does that. gRPC begins none
// while it reads, and it reads as long as there is something to read: so calls that wait to begin are
// counted too, all together, for whose they are is known only then. AcceptLoop ends connections by both.
// Thread-safe.
class UnfinishedCalls {
 public:
  // Twice as many as may be open: those that a client cancelled end a little later.
  static constexpr int kMax = 2048;
  static constexpr int kWaitingMax = 4096;

  explicit UnfinishedCalls(int max = kMax);

  // `peer` as ServerContext::peer() has it.
  void Begin(const std::string& peer);
  void End(const std::string& peer);

  // A call has come; it has begun, or has ended before that.
  void Arrive();
  void Leave() { --waiting_; }
  // More wait to begin than do when everybody means well.
  bool flooded() const { return waiting_ > kWaitingMax; }
  // kMayBegin: more than half as many came to wait. kGoesOn: it is flooded, and so many more calls have
  // come since either was said last. By who was read meanwhile it can be told whose they are.
  enum class Flood { kNone, kMayBegin, kGoesOn };
  Flood TakeFlood();

  // Readable while there is something to take.
  int event() const { return event_.get(); }
  // The peers of connections that came to have too many since the last time. Or see flooded().
  std::vector<std::string> TakeExcessive();

  // Counts all calls of a server. The result is one of its interceptors. Both keep `calls`.
  static std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> Count(
      std::shared_ptr<UnfinishedCalls> calls, grpc::ServerBuilder& builder);

 private:
  const int max_;
  const Fd event_;  // an eventfd
  std::atomic<int> waiting_ = 0;
  std::atomic<uint64_t> arrived_ = 0;  // calls, ever
  std::atomic<uint64_t> told_ = 0;     // how many those were when TakeFlood() last said something
  std::atomic<bool> rose_ = false;     // see Flood::kMayBegin
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, int> counts_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> excessive_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::service
