// SPDX-License-Identifier: Apache-2.0
// Part of the dispatcher: operators' changes to workers.
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/controller/controller.h"
#include "server/controller/host_events.h"
#include "server/controller/removal.h"
#include "server/controller/settle.h"

namespace remesh::server {

void Controller::Change(CallId call, const v1::ForgetWorkerRequest& request, Moment now,
                        Outbox& out) {
  const absl::StatusOr<std::string> host = FindUnusedHost(request.name(), machines_.view());
  if (!host.ok()) return out.Reply(call, host.status());
  Carry(machines_.membership.Forget(*host, CallPersisted{call}, now, out), machines_, now, out);
}

void Controller::Change(CallId call, const v1::ResetWorkerRequest& request, Moment now,
                        Outbox& out) {
  const absl::StatusOr<std::string> host = FindAwayHost(request.name(), machines_.view());
  if (!host.ok()) return out.Reply(call, host.status());
  machines_.membership.Reset(*host, CallPersisted{call}, out);
}

void Controller::Change(CallId call, const v1::DrainWorkerRequest& request, Moment, Outbox& out) {
  SetDrained(call, request.name(), true, out);
}

void Controller::Change(CallId call, const v1::UndrainWorkerRequest& request, Moment, Outbox& out) {
  SetDrained(call, request.name(), false, out);
}

void Controller::SetDrained(CallId call, const std::string& worker, bool drained, Outbox& out) {
  const absl::StatusOr<std::string> host = FindKnownHost(worker, machines_.view());
  if (!host.ok()) return out.Reply(call, host.status());
  std::vector<Record> records = machines_.membership.SetDrained(*host, drained);
  if (records.empty()) return out.Reply(call, google::protobuf::Empty());
  out.Note(absl::StrCat("host ", *host, drained ? " is drained" : " is not drained any more"));
  out.Persist(std::move(records), CallPersisted{call});
}

void Controller::Change(CallId call, const v1::DiscardShardsRequest& request, Moment now,
                        Outbox& out) {
  const absl::StatusOr<Discard> discard = FindDiscard(request, machines_.view());
  if (!discard.ok()) return out.Reply(call, discard.status());
  for (const v1::StateManifest& manifest : discard->response.discarded()) {
    machines_.commands.Send(discard->host, ToDiscard(manifest), out);
    Free(discard->host, {KeyOf(manifest)}, machines_, out);
    out.Warn(absl::StrCat("host ", discard->host, " was asked to discard generation ",
                          manifest.generation(), " of ", manifest.state(), " (uid ",
                          manifest.state_uid(), ")"));
  }
  for (const v1::OwedShards& last : discard->response.last_copies()) {
    out.Warn(absl::StrCat("generation ", last.manifest().generation(), " of ",
                          last.manifest().state(), " on host ", discard->host,
                          ", which was discarded, may have been the last copy: ", last.reason()));
  }
  out.Reply(call, discard->response);
}

}  // namespace remesh::server
