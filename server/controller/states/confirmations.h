// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "server/controller/values/outbox.h"

namespace remesh::server {

// What the journal is to forget of deleted states. No call waits for that, so what comes while a
// transaction of it is on its way to the disk is one transaction after it: the confirmations of
// thousands of hosts are a few transactions. Not thread-safe.
class Confirmations {
 public:
  void Add(std::vector<Record> records, Outbox& out);
  // ConfirmationsSaved followed.
  void OnSaved(Outbox& out);
  // What has not been written, for a transaction that must come after it.
  std::vector<Record> Take();

 private:
  void Write(Outbox& out);

  std::vector<Record> waiting_;
  bool writing_ = false;  // a transaction is on its way
};

}  // namespace remesh::server
