// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/explain_proto.h"

namespace remesh {

v1::Explanation ToProto(const Explanation& explanation) {
  v1::Explanation message;
  message.set_certificate(explanation.certificate);
  message.set_routing_certificate(explanation.routing_certificate);
  message.set_bottleneck(explanation.bottleneck);
  for (const DomainTraffic& row : explanation.domains) {
    v1::DomainTraffic& out = *message.add_domains();
    const bool is_host = row.kind == DomainTraffic::Kind::kHost;
    out.set_kind(is_host ? v1::DomainTraffic::KIND_HOST : v1::DomainTraffic::KIND_DOMAIN);
    out.set_name(row.name);
    out.set_bytes_in(row.bytes_in);
    out.set_bytes_out(row.bytes_out);
    out.set_ingress_bytes_per_second(row.ingress_bytes_per_second);
    out.set_egress_bytes_per_second(row.egress_bytes_per_second);
    out.set_seconds_in(row.seconds_in);
    out.set_seconds_out(row.seconds_out);
    out.set_binding(row.binding);
  }
  for (const StrategyCost& row : explanation.strategies) {
    v1::StrategyCost& out = *message.add_strategies();
    out.set_name(row.name);
    out.set_how(row.how);
    out.set_bytes_crossing(row.bytes_crossing);
    out.set_bottleneck_bytes(row.bottleneck_bytes);
    out.set_seconds(row.seconds);
    out.set_ratio(row.ratio);
  }
  return message;
}

ExplainOptions ToExplainOptions(double checkpoint_bytes_per_second) {
  ExplainOptions options;
  if (checkpoint_bytes_per_second != 0) {
    options.checkpoint_bytes_per_second = checkpoint_bytes_per_second;
  }
  return options;
}

}  // namespace remesh
