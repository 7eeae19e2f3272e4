// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/plan_proto.h"

#include <xxhash.h>

#include <algorithm>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "planner/order/free_order.h"
#include "planner/report/names.h"
#include "planner/schedule/cost_model.h"
#include "planner/values/element_type.h"
#include "proto/convert/presets/message_costs.h"
#include "proto/program/program_proto.h"

namespace remesh::proto {

using planner::Binding;
using planner::Box;
using planner::CanonicalRequest;
using planner::Plan;

namespace {

void SetBox(const Box& box, v1::Box& message) {
  message.mutable_lo()->Clear();
  message.mutable_hi()->Clear();
  for (const planner::Interval& dim : box.dims) {
    message.add_lo(dim.lo);
    message.add_hi(dim.hi);
  }
}

int64_t BytesOf(const Box& box, planner::ElementType type) {
  const int bits = planner::BitWidth(type);
  const int64_t elements = box.element_count();
  return bits >= 8 ? elements * (bits / 8) : (elements * bits + 7) / 8;
}

// Adds the order that the planner chose: one entry for each different list of target devices.
void AddTargetDeviceLists(const Plan& plan, const CanonicalRequest& request, const Binding& binding,
                          v1::Plan& message) {
  const planner::ReshardRequest ordered =
      planner::WithTargetOrder(request.request, plan.target_order());
  std::map<planner::DeviceList, v1::TargetDeviceList*> lists;
  // Most arrays share a list; comparing them takes time for each device.
  absl::flat_hash_map<planner::DeviceListPtr, v1::TargetDeviceList*> shared;
  for (size_t i = 0; i < ordered.arrays.size(); ++i) {
    const planner::DeviceListPtr& devices = ordered.arrays[i].target.devices;
    const auto [known, added] = shared.try_emplace(devices);
    if (added) {
      v1::TargetDeviceList*& list = lists[*devices];
      if (list == nullptr) {
        list = message.add_target_device_lists();
        for (const int64_t device : *devices)
          list->mutable_devices()->add_ids(binding.device_ids[device]);
      }
      known->second = list;
    }
    known->second->add_arrays(binding.array_names[i]);
  }
}

}  // namespace

v1::Topology ToProto(const planner::Topology& topology) {
  v1::Topology message;
  for (const planner::Host& host : topology.hosts) {
    v1::Host& out = *message.add_hosts();
    out.set_name(host.name);
    for (const int64_t id : host.device_ids) out.add_device_ids(id);
    out.set_nic_bytes_per_second(host.nic_bytes_per_second);
    out.set_nics(host.nics);
    out.set_fabric_bytes_per_second(host.fabric_bytes_per_second);
    out.set_parent(host.parent);
    if (host.message_costs != planner::MessageCosts{}) SetMessageCosts(host.message_costs, out);
    out.set_capacities_assumed(host.capacities_assumed);
  }
  for (const planner::Domain& domain : topology.domains) {
    v1::Domain& out = *message.add_domains();
    out.set_name(domain.name);
    out.set_parent(domain.parent);
    out.set_egress_bytes_per_second(domain.egress_bytes_per_second);
    out.set_ingress_bytes_per_second(domain.ingress_bytes_per_second);
  }
  return message;
}

v1::Box ToProto(const Box& box) {
  v1::Box message;
  SetBox(box, message);
  return message;
}

absl::StatusOr<Box> ToBox(const v1::Box& box) {
  if (box.lo_size() != box.hi_size()) {
    return InvalidField("hi", absl::StrCat(box.hi_size(), " indices"),
                        absl::StrCat("must be ", box.lo_size(), ", as lo has"));
  }
  Box value;
  for (int d = 0; d < box.lo_size(); ++d) {
    if (box.lo(d) < 0)
      return InvalidField(absl::StrCat("lo[", d, "]"), absl::StrCat(box.lo(d)), "must be >= 0");
    if (box.hi(d) < box.lo(d)) {
      return InvalidField(absl::StrCat("hi[", d, "]"), absl::StrCat(box.hi(d)),
                          absl::StrCat("must be >= lo[", d, "], which is ", box.lo(d)));
    }
    value.dims.push_back({box.lo(d), box.hi(d)});
  }
  return value;
}

v1::PlanSummary SummaryOf(const Plan& plan, const Binding& binding) {
  const planner::PlanSummary& summary = plan.summary();
  v1::PlanSummary message;
  message.set_total_bytes(summary.total_bytes);
  message.set_kept_bytes(summary.kept_bytes);
  message.set_local_bytes(summary.local_bytes);
  message.set_crossing_bytes(summary.crossing_bytes);
  message.set_relayed_bytes(summary.relayed_bytes);
  message.set_bottleneck_bytes(summary.bottleneck_bytes);
  message.set_bottleneck_seconds(summary.bottleneck_seconds);
  message.set_lower_bound_seconds(summary.lower_bound_seconds);
  message.set_routing_bound_seconds(summary.routing_bound_seconds);
  message.set_quality(summary.quality);
  message.set_certificate(planner::BoundInWords(plan, binding));
  message.set_predicted_seconds(summary.predicted_seconds);
  message.set_max_peak_bytes(summary.max_peak_bytes);
  message.set_windows(summary.windows);
  message.set_messages(summary.messages);
  message.set_schedule_price(summary.schedule_price);
  message.set_sharing_model(planner::kSharingModel);
  message.set_schedule_seconds(summary.schedule_seconds);
  message.set_fabric_seconds(summary.fabric_seconds);
  message.set_fabric_bound_seconds(summary.fabric_bound_seconds);
  message.set_fabric_certificate(planner::FabricBoundInWords(plan, binding));
  return message;
}

std::string PlanName(const std::string& fingerprint, const Binding& binding) {
  std::string bytes;
  for (const int64_t id : binding.device_ids) absl::StrAppend(&bytes, id, ",");
  for (const int32_t index : binding.array_indices) absl::StrAppend(&bytes, index, ";");
  for (const auto* names : {&binding.host_names, &binding.domain_names, &binding.array_names}) {
    absl::StrAppend(&bytes, names->size(), "|");
    for (const std::string& name : *names) absl::StrAppend(&bytes, name.size(), ":", name);
  }
  return absl::StrFormat("plans/%s-%016x", fingerprint, XXH3_64bits(bytes.data(), bytes.size()));
}

void SetCost(const Plan& plan, const Binding& binding, v1::Plan& message) {
  *message.mutable_summary() = SummaryOf(plan, binding);
  message.set_missing_boxes(static_cast<int64_t>(plan.missing().size()));
}

size_t AddMissing(const Plan& plan, const Binding& binding, size_t first, size_t max_bytes,
                  v1::Plan& message) {
  size_t next = first;
  for (size_t bytes = 0; next < plan.missing().size() && bytes < max_bytes; ++next) {
    const planner::MissingBox& missing = plan.missing()[next];
    v1::MissingBox& out = *message.add_missing();
    out.set_array(binding.array_names[missing.array]);
    SetBox(missing.box, *out.mutable_box());
    for (const int32_t device : missing.lost_devices)
      out.add_lost_device_ids(binding.device_ids[device]);
    bytes += out.ByteSizeLong();
  }
  return next;
}

v1::Plan ToProto(const Plan& plan, const CanonicalRequest& request, const Binding& binding,
                 const std::string& name) {
  v1::Plan message;
  message.set_name(name);
  message.set_fingerprint(request.fingerprint);
  SetCost(plan, binding, message);
  if (request.request.options.free_target_order)
    AddTargetDeviceLists(plan, request, binding, message);
  AddMissing(plan, binding, 0, kMissingBytes, message);
  message.set_cached_bytes(plan.memory_bytes());
  return message;
}

absl::Status BindRefusal(const absl::Status& status, const Binding& binding) {
  ErrorInfo info = GetErrorInfo(status);
  size_t array = 0;
  if (!absl::IsDataLoss(status) || !absl::SimpleAtoi(info.metadata["array"], &array)) return status;
  info.metadata["array"] = binding.array_names.at(array);
  std::vector<int64_t> devices;
  for (absl::string_view text :
       absl::StrSplit(info.metadata["lost_devices"], ',', absl::SkipEmpty())) {
    size_t device = 0;
    if (absl::SimpleAtoi(text, &device)) devices.push_back(binding.device_ids.at(device));
  }
  info.metadata["lost_devices"] = absl::StrJoin(devices, ",");
  return MakeError(
      status.code(),
      absl::StrCat(info.metadata["boxes"], " boxes are held by lost devices only, the first is ",
                   info.metadata["box"], " of array ", info.metadata["array"], " on devices ",
                   info.metadata["lost_devices"], ", and no fallback is declared"),
      info);
}

void ForEachTransferProto(const Plan& plan, const CanonicalRequest& request, const Binding& binding,
                          absl::FunctionRef<void(const v1::Transfer&)> visit) {
  ForEachTransferProtoFrom(0, plan, request, binding, [&](const v1::Transfer& transfer) {
    visit(transfer);
    return true;
  });
}

void ForEachTransferProtoFrom(int32_t first_window, const Plan& plan,
                              const CanonicalRequest& request, const Binding& binding,
                              absl::FunctionRef<bool(const v1::Transfer&)> visit) {
  v1::Transfer message;
  bool wanted = true;
  plan.ForEachTransferFrom(first_window, [&](const planner::Transfer& transfer) {
    if (!wanted) return false;
    message.set_window(transfer.window);
    message.set_array(binding.array_names[transfer.array]);
    SetBox(transfer.box, *message.mutable_box());
    message.set_from_device(binding.device_ids[transfer.from_device]);
    message.set_to_device(binding.device_ids[transfer.to_device]);
    message.set_bytes(BytesOf(transfer.box, request.request.arrays[transfer.array].element_type));
    message.set_relay(transfer.relay());
    wanted = visit(message);
    return wanted;
  });
}

absl::Status ForEachProgramMessage(const Plan& plan, const planner::ProgramIndex& index,
                                   const CanonicalRequest& request, const Binding& binding,
                                   const std::string& host,
                                   absl::FunctionRef<bool(const v1::HostProgram&)> visit) {
  const auto found = std::find(binding.host_names.begin(), binding.host_names.end(), host);
  if (found == binding.host_names.end()) {
    const std::string plan_name = PlanName(request.fingerprint, binding);
    return MakeError(
        absl::StatusCode::kNotFound, absl::StrCat("host ", host, " takes no part in ", plan_name),
        {.reason = "HOST_NOT_IN_PLAN", .metadata = {{"host", host}, {"plan", plan_name}}});
  }
  const auto number = static_cast<int32_t>(found - binding.host_names.begin());
  WriteProgram(InCallersNames(planner::ProgramOfHost(plan, index, number), request, binding),
               visit);
  return absl::OkStatus();
}

}  // namespace remesh::proto
