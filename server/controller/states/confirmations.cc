// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/confirmations.h"

#include <iterator>
#include <utility>

namespace remesh::server {

void Confirmations::Add(std::vector<Record> records, Outbox& out) {
  std::move(records.begin(), records.end(), std::back_inserter(waiting_));
  if (!writing_) Write(out);
}

void Confirmations::OnSaved(Outbox& out) {
  writing_ = false;
  Write(out);
}

std::vector<Record> Confirmations::Take() { return std::exchange(waiting_, {}); }

void Confirmations::Write(Outbox& out) {
  if (waiting_.empty()) return;
  writing_ = true;
  out.Persist(Take(), ConfirmationsSaved());
}

}  // namespace remesh::server
