// SPDX-License-Identifier: Apache-2.0
#include "planner/codec/plan_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/codec/corrupt_plan.h"
#include "planner/codec/program_check.h"
#include "planner/plan/pack.h"
#include "planner/values/element_type.h"

namespace remesh::planner {
namespace {

constexpr ProgramFields kFields = {.parts = "schedule.parts",
                                   .rounds = "schedule.rounds",
                                   .hops = "schedule.hops",
                                   .min_part_bits = "schedule.min_part_bits",
                                   .slack_bits = "schedule.slack_bits",
                                   .windows = "summary.windows",
                                   .classes = "classes",
                                   .atom_begins = "classes.boxes.lo",
                                   .atom_extents = "classes.boxes.hi",
                                   .tapes = "tape_begin",
                                   .tape_numbers = "tape_begin",
                                   .atoms = "atoms",
                                   .segment_tapes = "segment_tape",
                                   .segment_begins = "segment_hi",
                                   .segment_sizes = "segment_hi",
                                   .segment_numbers = "segment_hi",
                                   .cut_positions = "",  // a plan has none
                                   .move_hops = "moves.hop",
                                   .move_rounds = "round_begin",
                                   .move_segments = "moves.segment",
                                   .move_from_devices = "moves.from_device",
                                   .move_to_devices = "moves.to_device",
                                   .move_from_spaces = "moves.from_space",
                                   .move_to_spaces = "moves.to_space",
                                   .move_begins = "stripes.lo",
                                   .move_sizes = "stripes.hi"};

template <typename T>
bool IsIndex(int64_t index, const T& items) {
  return index >= 0 && index < static_cast<int64_t>(items.size());
}

// Whether numbers rise (not strictly) from 0 to `end`.
bool Divide(const std::vector<int32_t>& begins, size_t end) {
  return !begins.empty() && begins.front() == 0 && begins.back() == static_cast<int64_t>(end) &&
         std::is_sorted(begins.begin(), begins.end());
}

bool FitsInto(const Box& box, const Shape& shape) {
  if (box.dims.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (box.dims[d].lo < 0 || box.dims[d].hi > shape[d] || box.dims[d].lo >= box.dims[d].hi) {
      return false;
    }
  }
  return true;
}

// Checks what a plan has and a program has not; ProgramCheck checks the rest. INVALID_ARGUMENT.
class Checker {
 public:
  Checker(const PlanRep& rep, const ReshardRequest& request) : rep_(rep), request_(request) {}

  absl::Status Check() {
    RETURN_IF_ERROR(CheckDevices());
    RETURN_IF_ERROR(CheckOrder());
    RETURN_IF_ERROR(CheckProgramParts());
    RETURN_IF_ERROR(CheckFigures());
    RETURN_IF_ERROR(CheckBounds());
    return CheckMissingBoxes();
  }

 private:
  absl::Status CheckDevices() const {
    size_t next = 0;
    for (size_t h = 0; h < request_.topology.hosts.size(); ++h) {
      for (size_t i = 0; i < request_.topology.hosts[h].device_ids.size(); ++i, ++next) {
        if (IsIndex(next, rep_.host_of) && rep_.host_of[next] == static_cast<int64_t>(h)) continue;
        const std::string host =
            IsIndex(next, rep_.host_of) ? absl::StrCat(rep_.host_of[next]) : "missing";
        return InvalidField(Numbered("host_of", next), host, absl::StrCat("must be ", h));
      }
    }
    for (const size_t size : {rep_.host_of.size(), rep_.peak_bytes.size()}) {
      if (size == next) continue;
      return InvalidField(size == rep_.host_of.size() ? "host_of" : "peak_bytes",
                          absl::StrCat(size, " devices"), absl::StrCat("must be ", next));
    }
    return absl::OkStatus();
  }

  // Checks that the target order only lets target devices change places among themselves.
  absl::Status CheckOrder() const {
    const std::vector<int64_t>& order = rep_.target_order;
    if (order.empty()) return absl::OkStatus();
    if (!request_.options.free_target_order || order.size() != rep_.host_of.size()) {
      return InvalidField("target_order", absl::StrCat(order.size(), " devices"),
                          "must be all, of a request whose order is free");
    }
    std::vector<bool> target(order.size(), false), taken(order.size(), false);
    for (const ArraySpec& array : request_.arrays) {
      for (const int64_t device : *array.target.devices) target[device] = true;
    }
    for (size_t d = 0; d < order.size(); ++d) {
      const int64_t taker = order[d];
      const bool stays = taker == static_cast<int64_t>(d);
      if (!IsIndex(taker, taken) || taken[taker] || (!stays && (!target[d] || !target[taker]))) {
        return InvalidField(Numbered("target_order", d), absl::StrCat(taker),
                            "must be a target device, each once; others stay");
      }
      taken[taker] = true;
    }
    return absl::OkStatus();
  }

  absl::Status CheckProgramParts() const {
    std::vector<ProgramArray> arrays;
    arrays.reserve(request_.arrays.size());
    for (const ArraySpec& array : request_.arrays) {
      arrays.push_back({&array.shape, BitWidth(array.element_type)});
    }
    ProgramCheck check(kFields, arrays, static_cast<int64_t>(rep_.host_of.size()));
    RETURN_IF_ERROR(
        check.CheckSchedule(rep_.schedule, rep_.figures.summary.windows, !rep_.moves.empty()));
    RETURN_IF_ERROR(check.CheckClasses(rep_.geometry));
    RETURN_IF_ERROR(check.CheckTapes(rep_.atoms, rep_.tape_begin));
    if (rep_.segment_tape.size() != rep_.segment_hi.size()) {
      return InvalidField("segment_hi", absl::StrCat(rep_.segment_hi.size(), " segments"),
                          absl::StrCat("must be ", rep_.segment_tape.size()));
    }
    const std::vector<Segment> segments = UnpackedSegments(rep_);
    RETURN_IF_ERROR(check.CheckSegments(segments));
    return CheckMoves(segments, check);
  }

  absl::Status CheckMoves(const std::vector<Segment>& segments, ProgramCheck& check) const {
    const size_t rounds = static_cast<size_t>(rep_.schedule.rounds);
    if (rep_.round_begin.size() != rounds + 1 || !Divide(rep_.round_begin, rep_.moves.size())) {
      return InvalidField("round_begin", absl::StrCat(rep_.round_begin.size(), " begins"),
                          absl::StrCat("must rise from 0 to ", rep_.moves.size()));
    }
    auto stripe = rep_.stripes.begin();
    for (int32_t round = 0; round < rep_.schedule.rounds; ++round) {
      for (int32_t i = rep_.round_begin[round]; i < rep_.round_begin[round + 1]; ++i) {
        const PackedMove& move = rep_.moves[i];
        if (!IsIndex(move.segment, segments)) {
          return InvalidField(Numbered(kFields.move_segments, i), absl::StrCat(move.segment),
                              absl::StrCat("must be in [0, ", segments.size(), ")"));
        }
        Interval range{0, segments[move.segment].size()};
        if (!move.whole) {
          if (stripe == rep_.stripes.end() || stripe->move != i) {
            return InvalidField(Numbered("moves.whole", i), "false", "must have a stripe");
          }
          range = {stripe->lo, stripe->hi};
          ++stripe;
        }
        RETURN_IF_ERROR(check.CheckMove(i, Unpacked(move, round, range)));
      }
    }
    if (stripe == rep_.stripes.end()) return absl::OkStatus();
    return InvalidField("stripes", absl::StrCat(rep_.stripes.size()), "must be of moves, in order");
  }

  // Checks that bits of the bytes are countable, and that seconds are numbers.
  absl::Status CheckFigures() const {
    const PlanSummary& s = rep_.figures.summary;
    for (const auto& [name, number] : {std::pair{"total_bytes", s.total_bytes},
                                       {"kept_bytes", s.kept_bytes},
                                       {"local_bytes", s.local_bytes},
                                       {"crossing_bytes", s.crossing_bytes},
                                       {"relayed_bytes", s.relayed_bytes},
                                       {"bottleneck_bytes", s.bottleneck_bytes},
                                       {"max_peak_bytes", s.max_peak_bytes},
                                       {"messages", s.messages}}) {
      RETURN_IF_ERROR(CheckCount(absl::StrCat("summary.", name), number));
    }
    for (size_t d = 0; d < rep_.peak_bytes.size(); ++d)
      RETURN_IF_ERROR(CheckCount(Numbered("peak_bytes", d), rep_.peak_bytes[d]));
    for (const auto& [name, number] : {std::pair{"bottleneck_seconds", s.bottleneck_seconds},
                                       {"lower_bound_seconds", s.lower_bound_seconds},
                                       {"routing_bound_seconds", s.routing_bound_seconds},
                                       {"quality", s.quality},
                                       {"predicted_seconds", s.predicted_seconds},
                                       {"schedule_seconds", s.schedule_seconds},
                                       {"fabric_seconds", s.fabric_seconds},
                                       {"fabric_bound_seconds", s.fabric_bound_seconds},
                                       {"schedule_price", s.schedule_price}}) {
      if (std::isfinite(number) && number >= 0) continue;
      return InvalidField(absl::StrCat("summary.", name), absl::StrCat(number),
                          "must be finite and >= 0");
    }
    return absl::OkStatus();
  }

  static absl::Status CheckCount(const std::string& field, int64_t number) {
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max() / 8;
    if (number >= 0 && number <= kMax) return absl::OkStatus();
    return InvalidField(field, absl::StrCat(number), absl::StrCat("must be in [0, ", kMax, "]"));
  }

  absl::Status CheckBounds() const {
    const auto in = [](const std::vector<int32_t>& members, const auto& items) {
      return std::all_of(members.begin(), members.end(),
                         [&](int32_t i) { return IsIndex(i, items); });
    };
    using Kind = Certificate::Kind;
    const auto fits = [&](const Certificate& one, bool of_fabric) {
      const bool is_local = one.kind == Kind::kLocalIngress || one.kind == Kind::kLocalEgress;
      const bool known = one.kind >= Kind::kNone && one.kind <= Kind::kLocalEgress &&
                         (of_fabric ? one.kind != Kind::kRelay : !is_local);
      const bool of_devices = of_fabric && one.kind != Kind::kNone;
      return known && one.devices.empty() == !of_devices && one.capacity >= 1 &&
             in(one.hosts, request_.topology.hosts) && in(one.domains, request_.topology.domains) &&
             in(one.devices, rep_.host_of);
    };
    const Figures& figures = rep_.figures;
    for (const auto& [name, one] : {std::pair{"lower_bound", &figures.lower_bound},
                                    {"routing_bound", &figures.routing_bound},
                                    {"fabric_bound", &figures.fabric_bound}}) {
      if (fits(*one, one == &figures.fabric_bound)) continue;
      return InvalidField(
          name, absl::StrCat("kind ", static_cast<int>(one->kind), ", capacity ", one->capacity),
          "must be of a kind, of hosts, domains and devices of the request that can send");
    }
    return absl::OkStatus();
  }

  absl::Status CheckMissingBoxes() const {
    for (size_t i = 0; i < rep_.missing.size(); ++i) {
      const MissingBox& missing = rep_.missing[i];
      const bool known = IsIndex(missing.array, request_.arrays) &&
                         FitsInto(missing.box, request_.arrays[missing.array].shape) &&
                         std::all_of(missing.lost_devices.begin(), missing.lost_devices.end(),
                                     [&](int32_t device) { return IsIndex(device, rep_.host_of); });
      if (known) continue;
      return InvalidField(Numbered("missing", i),
                          absl::StrCat("array ", missing.array, " ", missing.box.DebugString()),
                          "must be a box of an array, on devices of the request");
    }
    return absl::OkStatus();
  }

  const PlanRep& rep_;
  const ReshardRequest& request_;
};

}  // namespace

absl::Status CheckRep(const PlanRep& rep, const ReshardRequest& canonical) {
  const absl::Status status = Checker(rep, canonical).Check();
  return status.ok() ? status : CorruptPlan(status);
}

}  // namespace remesh::planner
