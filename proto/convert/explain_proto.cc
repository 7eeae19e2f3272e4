// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/explain_proto.h"

namespace remesh::proto {

using planner::Certificate;
using planner::DomainTraffic;

namespace {

v1::DomainTraffic DomainToProto(const DomainTraffic& row) {
  v1::DomainTraffic message;
  const bool is_host = row.kind == DomainTraffic::Kind::kHost;
  message.set_kind(is_host ? v1::DomainTraffic::KIND_HOST : v1::DomainTraffic::KIND_DOMAIN);
  message.set_name(row.name);
  message.set_ingress_bytes(row.ingress_bytes);
  message.set_egress_bytes(row.egress_bytes);
  message.set_ingress_bytes_per_second(row.ingress_bytes_per_second);
  message.set_egress_bytes_per_second(row.egress_bytes_per_second);
  message.set_ingress_seconds(row.ingress_seconds);
  message.set_egress_seconds(row.egress_seconds);
  message.set_binding(row.binding);
  message.set_level(row.level);
  return message;
}

v1::Certificate CertificateToProto(const Certificate& certificate,
                                   const planner::Binding& binding) {
  v1::Certificate message;
  if (certificate.kind == Certificate::Kind::kNone) return message;
  message.set_kind(certificate.kind == Certificate::Kind::kIngress  ? v1::Certificate::KIND_INGRESS
                   : certificate.kind == Certificate::Kind::kEgress ? v1::Certificate::KIND_EGRESS
                                                                    : v1::Certificate::KIND_RELAY);
  for (const int32_t host : certificate.hosts) message.add_hosts(binding.host_names[host]);
  for (const int32_t domain : certificate.domains) {
    message.add_domains(binding.domain_names[domain]);
  }
  message.set_bytes(certificate.bits / 8 + (certificate.bits % 8 != 0));
  message.set_bytes_per_second(static_cast<double>(certificate.capacity));
  return message;
}

}  // namespace

v1::Explanation ToProto(const planner::Explanation& explanation, const planner::Plan& plan,
                        const planner::Binding& binding) {
  v1::Explanation message;
  message.set_certificate(explanation.certificate);
  message.set_routing_certificate(explanation.routing_certificate);
  message.set_bottleneck(explanation.bottleneck);
  message.set_schedule(explanation.schedule);
  for (const DomainTraffic& row : explanation.domains) {
    *message.add_domains() = DomainToProto(row);
  }
  for (const planner::LevelTraffic& level : explanation.levels) {
    v1::LevelTraffic& out = *message.add_levels();
    out.set_count(level.count);
    out.set_egress_bytes(level.egress_bytes);
    out.set_binding(level.binding);
    *out.mutable_busiest() = DomainToProto(level.busiest);
  }
  for (const planner::StrategyCost& row : explanation.strategies) {
    v1::StrategyCost& out = *message.add_strategies();
    out.set_name(row.name);
    out.set_how(row.how);
    out.set_crossing_bytes(row.crossing_bytes);
    out.set_bottleneck_bytes(row.bottleneck_bytes);
    out.set_seconds(row.seconds);
    out.set_ratio(row.ratio);
  }
  *message.mutable_lower_bound() = CertificateToProto(plan.lower_bound_certificate(), binding);
  if (!explanation.routing_certificate.empty()) {
    *message.mutable_routing_bound() =
        CertificateToProto(plan.routing_bound_certificate(), binding);
  }
  return message;
}

planner::ExplainOptions ToExplainOptions(double checkpoint_bytes_per_second) {
  planner::ExplainOptions options;
  if (checkpoint_bytes_per_second != 0) {
    options.checkpoint_bytes_per_second = checkpoint_bytes_per_second;
  }
  return options;
}

}  // namespace remesh::proto
