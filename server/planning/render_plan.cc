// SPDX-License-Identifier: Apache-2.0
#include "server/planning/render_plan.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/report/html.h"
#include "planner/report/trace.h"
#include "proto/convert/explain_proto.h"

namespace remesh::server {

absl::StatusOr<std::string> RenderPlan(const BoundPlan& plan, const v1::RenderPlanRequest& request,
                                       planner::Budget& budget) {
  const CachedPlan& cached = *plan.cached;
  switch (request.form()) {
    case v1::RenderPlanRequest::FORM_UNSPECIFIED:
    case v1::RenderPlanRequest::HTML:
      break;
    case v1::RenderPlanRequest::TRACE: {
      std::string trace =
          planner::ChromeTrace(cached.request, cached.plan, plan.binding, {}, budget);
      RETURN_IF_ERROR(budget.Check());
      return trace;
    }
    default:
      return InvalidField("form", absl::StrCat(static_cast<int>(request.form())),
                          "is not a known form");
  }
  const planner::ExplainOptions options =
      proto::ToExplainOptions(request.checkpoint_bytes_per_second());
  ASSIGN_OR_RETURN(const planner::Explanation explanation,
                   planner::Explain(cached.request, cached.plan, plan.binding, options, budget));
  std::string page = planner::HtmlPage(cached.request, cached.plan, plan.binding, explanation,
                                       request.label(), budget);
  RETURN_IF_ERROR(budget.Check());
  return page;
}

}  // namespace remesh::server
