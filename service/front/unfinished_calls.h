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

// Counts the calls that have arrived and not ended. HTTP/2 limits how many calls a client may have
// open, but a call that its client has reset no longer counts while the server still works on it.
// By opening and resetting calls, one connection gave the server work for minutes ("rapid reset",
// CVE-2023-44487).
//
// A connection with more than `max` calls that have begun and not ended does that. gRPC begins no
// call while it reads, and it reads as long as there is something to read, so calls that wait to
// begin are counted too. They are counted all together, because gRPC knows their connections only
// when they begin. AcceptLoop ends connections by both counts. Thread-safe.
class UnfinishedCalls {
 public:
  // Twice as many calls as a client may have open: cancelled calls end a little later.
  static constexpr int kMax = 2048;
  static constexpr int kWaitingMax = 4096;
  // Beyond kWaitingMax the processes of a large world may have called at once, each once.
  static constexpr int kCrowdMax = 32'768;

  explicit UnfinishedCalls(int max = kMax);

  // `peer` as returned by ServerContext::peer().
  void Begin(const std::string& peer);
  void End(const std::string& peer);

  // Arrive(): a call has arrived. Leave(): it has begun, or has ended before it began.
  void Arrive();
  void Leave() { --waiting_; }
  // Whether more calls wait to begin than a few well-behaved clients cause.
  bool flooded() const { return waiting_ > kWaitingMax; }
  // kMayBegin: the number of waiting calls has risen above half of kWaitingMax. kGoesOn: the server
  // is flooded, and another half of kWaitingMax calls have arrived since TakeFlood() last returned
  // another value than kNone. The connection from which most was read in between is the one that
  // floods, if that is a good part of all; else many clients have called at once. kIsTooMuch: the
  // same, but more wait than kCrowdMax, whoever they are.
  enum class Flood { kNone, kMayBegin, kGoesOn, kIsTooMuch };
  Flood TakeFlood();

  // Readable when TakeExcessive() or TakeFlood() may have something to return.
  int event() const { return event_.get(); }
  // The peers of connections that have come to have more than `max` calls since the last call.
  std::vector<std::string> TakeExcessive();

  // Counts all calls of a server. Returns one of the server's interceptors. It and `builder` keep
  // `calls` alive.
  static std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> Count(
      std::shared_ptr<UnfinishedCalls> calls, grpc::ServerBuilder& builder);

 private:
  const int max_;
  const Fd event_;  // an eventfd
  std::atomic<int> waiting_ = 0;
  std::atomic<uint64_t> arrived_ = 0;  // calls, ever
  std::atomic<uint64_t> told_ = 0;     // arrived_ when TakeFlood() last returned not kNone
  std::atomic<bool> rose_ = false;     // see Flood::kMayBegin
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, int> counts_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> excessive_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::service
