// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remesh::worker {

// What a call of a trainer may have to wait for.
struct Awaited {
  enum class What {
    kState,       // that the state is created
    kGeneration,  // that the generation comes to this host, or is committed
    kSeal,        // that the generation, which is here, is readable
    kMemory,      // the state's memory, which is being reserved or freed
    kOpening,     // the call's own memory, which is being opened
    kWelcome,     // that the worker has been attached to the planner once
  };
  std::string state;  // empty with kWelcome
  What what = What::kState;
  int64_t generation = 0;  // of kSeal alone

  auto operator<=>(const Awaited&) const = default;
  // Whether this host works on it, so that it comes or fails soon. Every call waits for that.
  bool under_way() const { return what == What::kMemory || what == What::kOpening; }
};

// Why a call has no response now.
struct Unanswered {
  absl::Status error;              // never OK; the answer, unless the call waits
  std::optional<Awaited> awaited;  // what may change that; nullopt: nothing
};

// The result of a call: the response, or why there is none. Its errors are not absl::Status alone,
// so that no caller loses on the way what is awaited.
template <typename Response>
class Outcome {
 public:
  Outcome(Response response) : result_(std::move(response)) {}
  Outcome(absl::Status error) : result_(Unanswered{std::move(error), std::nullopt}) {}
  Outcome(Unanswered why) : result_(std::move(why)) {}

  bool ok() const { return std::holds_alternative<Response>(result_); }
  // REQUIRES: ok().
  const Response& operator*() const& { return std::get<Response>(result_); }
  Response&& operator*() && { return std::get<Response>(std::move(result_)); }
  const Response* operator->() const { return &std::get<Response>(result_); }
  // REQUIRES: !ok().
  const Unanswered& unanswered() const { return std::get<Unanswered>(result_); }

  // nullopt also if ok().
  std::optional<Awaited> awaited() const { return ok() ? std::nullopt : unanswered().awaited; }
  // OK if ok().
  absl::Status error() const { return ok() ? absl::OkStatus() : unanswered().error; }
  // The answer to a caller that does not wait.
  absl::StatusOr<Response> Now() && {
    if (!ok()) return error();
    return *std::move(*this);
  }

 private:
  std::variant<Response, Unanswered> result_;
};

}  // namespace remesh::worker
