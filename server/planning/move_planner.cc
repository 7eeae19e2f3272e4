// SPDX-License-Identifier: Apache-2.0
#include "server/planning/move_planner.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "server/questions/execution_plan.h"

namespace remesh::server {

void MovePlanner::Plan(std::shared_ptr<const StartPlanning> action, PlanDesk::Asker asker) {
  if (action->targets) return PlanTargets(std::move(action), std::move(asker));
  PlanByName(std::move(action), std::move(asker));
}

void MovePlanner::PlanByName(std::shared_ptr<const StartPlanning> action, PlanDesk::Asker asker) {
  auto move = std::make_shared<PlannedExecution>();
  desk_.Run(
      std::move(asker),
      [this, action, move](planner::Budget& budget) {
        ASSIGN_OR_RETURN(*move, MoveByName(plans_, *action, topology_.Get().get(), budget));
        return absl::OkStatus();
      },
      [this, action, move](absl::Status status) {
        if (!status.ok()) return done_(action->id, std::move(status));
        done_(action->id, std::move(*move));
      },
      PlanDesk::Place::kLookups);
}

void MovePlanner::PlanTargets(std::shared_ptr<const StartPlanning> action, PlanDesk::Asker asker) {
  struct Asked {
    Timestamp start = SteadyClock().Now();
    MoveQuestion move;  // less its question
  };
  auto asked = std::make_shared<Asked>();
  desk_.Find(
      asker,
      [this, action, asked](planner::Budget& budget) -> absl::StatusOr<PlanCache::Question> {
        ASSIGN_OR_RETURN(asked->move, QuestionOf(*action, topology_.Get().get(), plans_, budget));
        const bool plans = !asked->move.moves_nothing && !asked->move.answer;
        if (!plans) return absl::CancelledError("there is nothing to plan");
        return std::exchange(asked->move.question, {});
      },
      [this, action, asked, asker](absl::StatusOr<PlanCache::Answer> answer) {
        MoveQuestion& move = asked->move;
        if (move.moves_nothing) return done_(action->id, MovesNothing(*action));
        if (move.answer) answer = *std::move(move.answer);
        if (!answer.ok()) return done_(action->id, answer.status());
        plans_.memo().Remember(move.words, answer->plan->name);
        FinishTargets(action, asker, std::move(move.target), *std::move(answer), asked->start);
      },
      /*long_form=*/action->options.free_target_order());
}

void MovePlanner::FinishTargets(std::shared_ptr<const StartPlanning> action, PlanDesk::Asker asker,
                                std::shared_ptr<const PlacedState> target, PlanCache::Answer answer,
                                Timestamp start) {
  auto move = std::make_shared<PlannedExecution>();
  const std::string plan = answer.plan->name;
  desk_.Run(
      std::move(asker),
      [action, move, target = std::move(target), answer = std::move(answer),
       start](planner::Budget& budget) {
        ASSIGN_OR_RETURN(*move, MoveOf(*action, target, answer, start, budget));
        return absl::OkStatus();
      },
      [this, action, move, plan](absl::Status status) {
        if (status.ok()) return done_(action->id, std::move(*move));
        if (action->keep) plans_.EndUse(plan);
        done_(action->id, std::move(status));
      },
      PlanDesk::Place::kLookups);
}

}  // namespace remesh::server
