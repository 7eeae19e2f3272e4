# SPDX-License-Identifier: Apache-2.0
"""What every Notice does, whatever tells it. Each process of a world records what its notice says
at each step; the laws judge the records of all."""

import dataclasses
from typing import Callable, Dict, List, Optional, Sequence

from remesh.job.leaving import Decision, Notice, Reason


@dataclasses.dataclass
class Record:
    """Of one process."""

    answers: Dict[int, Optional[Reason]]  # by step
    told: Dict[int, Reason]  # by the step that it was at, the first one that it asks about if none


def run(notice: Notice, steps: Sequence[int], before: Callable[[int], Optional[Reason]]) -> Record:
    """Asks about each step, twice, as should_save() and leaving() do. before(step) may tell the
    process to go, and says whether it did."""
    record = Record({}, {})
    decision = Decision(notice)
    decision.start()
    for step in steps:
        told = before(step)
        if told is not None:
            record.told[step] = told
        record.answers[step] = decision.at(step)
        assert decision.at(step) == record.answers[step], "two answers at one step"
        if record.answers[step] is not None:
            break
    return record


def check(records: List[Record], within: int) -> Optional[int]:
    """The laws. within: asked steps from the first notice to the safe step. Returns that step."""
    assert all(each.answers == records[0].answers for each in records), records
    told = {step: each.told[step] for each in records for step in each.told}
    safe = [step for step, reason in records[0].answers.items() if reason is not None]
    asked = list(records[0].answers)
    if not told:
        assert not safe, records
        return None
    waited = len(asked) - 1 - asked.index(min(told))
    assert waited <= within and (safe or waited < within), (waited, records)
    if safe:
        reasons = {reason for each in records for reason in each.told.values()}
        assert records[0].answers[safe[0]] in reasons, records
    return safe[0] if safe else None
