// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "remesh/v1/plan.pb.h"

namespace remesh::client {

// What happened to a plan between two lists of plans.
struct PlanChange {
  enum class Kind { kExisting, kNew, kChanged, kGone };
  Kind kind = Kind::kExisting;
  v1::Plan plan;          // as it is now; a plan that is gone: as it was
  std::string what = "";  // of kChanged: "pinned no -> yes, tier disk -> memory"
};

// "EXISTING", "NEW", "CHANGED", "GONE".
std::string KindOf(const PlanChange& change);
// "CHANGED plans/x: pinned no -> yes".
std::string LineOf(const PlanChange& change);

// Compares each list of plans with the list before it.
class PlanChanges {
 public:
  using Plans = google::protobuf::RepeatedPtrField<v1::Plan>;

  // The plans of the first list exist; of a later list, what is new, changed or gone since. Hits,
  // uses, and the time of the last use change with every request, and count as no change.
  std::vector<PlanChange> Next(const Plans& listed);

 private:
  std::map<std::string, v1::Plan> known_;  // by name
  bool first_ = true;
};

}  // namespace remesh::client
