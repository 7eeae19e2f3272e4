# SPDX-License-Identifier: Apache-2.0
"""From the seal of a save to its commit, and what the processes raise if it never commits.

Process 0 decides that. It writes the reason into the labels of its world's claim and deletes the
save; the others find the save gone and read the reason there. So all raise the same error, without
a call to the group.
"""

import time
from typing import Callable, Dict, List, Tuple

from remesh import calls, errors
from remesh.job.errors import SaveFailed
from remesh.job.worlds import WHOLE, Worlds
from remesh.state import State
from remesh.worker import LocalState

_LABEL_BYTES = 1024
_LOOK_SECONDS = 10.0
_MOST_LOOK_SECONDS = 60.0
# By which process 0 is ahead of the others, which wait for its decision.
_AHEAD_SECONDS = 60.0


class Commit:
    """Of one save, on this process. For the thread that commits."""

    def __init__(self, worlds: Worlds, local: LocalState, decides: bool, seconds: float):
        """decides: whether this is process 0. seconds: that the save may take."""
        self._local, self._decides = local, decides
        self._worlds, self._patience = worlds, worlds.patience
        self._give_up = time.monotonic() + seconds + (0 if decides else _AHEAD_SECONDS)
        self._pause = min(_LOOK_SECONDS, max(self._patience, 0.1), seconds)
        self._away_since: Dict[str, float] = {}

    def seal(self) -> None:
        """Seals this host's shards, however long its worker is away. SaveFailed, NotFound."""
        self._repeat(lambda: self._local.seal(wait=self._pause))

    def wait(self) -> None:
        """Until the save is committed. Process 0 gives it up when a host has been away for
        `patience`, or the time is over. SaveFailed, NotFound."""
        self._repeat(lambda: self._local.read(1, wait=self._pause))

    def is_given_up(self) -> bool:
        """On a process that cannot do its part: waits for what process 0 decides. False if nothing
        is known of that in time."""
        try:
            self.wait()
        except errors.NotFound:
            return True
        except errors.RemeshError:
            pass
        return False

    # Calls the worker until it answers. It waits for what is gone as for what
    # is to come, so the server is asked in between.
    def _repeat(self, call: Callable[[], object]) -> None:
        while True:
            try:
                call()
                return
            except (errors.TimedOut, errors.ServerAway) as error:
                if self._is_committed():
                    return
                if time.monotonic() > self._give_up:
                    raise error
            time.sleep(calls.PAUSE_SECONDS)
            if not self._decides:  # there may be thousands that ask
                self._pause = min(2 * self._pause, _MOST_LOOK_SECONDS)

    # Whether the server knows that the save is committed. SaveFailed on process
    # 0 if it cannot be, NotFound on the others if process 0 gave it up.
    def _is_committed(self) -> bool:
        try:
            state = self._worlds.find(self._local.name)
        except errors.ServerAway:
            return False
        if state is None or state.uid != self._local.uid:
            raise errors.NotFound(f"{self._local.name} is gone")
        if state.phase in WHOLE:
            return True
        return self._decides and not self._may_commit(state)

    # Of a save whose hosts are away: False if it is committed all the same.
    # SaveFailed when they have been away for too long.
    def _may_commit(self, state: State) -> bool:
        now = time.monotonic()
        self._away_since = {host: self._away_since.get(host, now) for host in state.lost_hosts}
        away = [host for host, since in self._away_since.items() if now - since >= self._patience]
        if not away and now <= self._give_up:
            return True
        if self._worlds.unfinished(state):
            raise not_sealed(state, away)
        return False


def not_sealed(state: State, away: List[str]) -> SaveFailed:
    """Names the hosts that a save waits for: those that are `away` for too long, else all."""
    hosts = away or [*state.lost_hosts, *state.unsealed_hosts]
    named = ", ".join(hosts[:16]) + (f" and {len(hosts) - 16} more" if len(hosts) > 16 else "")
    what = "away, and not known to have sealed it" if away else "not sealed in time"
    return SaveFailed(f"{named or 'no host'}: {what}", metadata={"hosts": ",".join(hosts[:16])})


def failure(name: str, step: int, error: BaseException) -> SaveFailed:
    """What a save's processes raise."""
    why = error.message if isinstance(error, SaveFailed) else str(error)
    hosts = error.metadata if isinstance(error, SaveFailed) else {}
    return SaveFailed(
        f"{name} (step {step}) did not commit: {why}",
        metadata={**hosts, "state": name, "step": str(step)},
    )


def to_labels(error: SaveFailed) -> Dict[str, str]:
    """For of_labels() on the other processes."""
    fields: List[Tuple[str, str]] = [*error.metadata.items(), ("message", error.message)]
    return {f"failed-{key}": _cut(value) for key, value in fields}


# As much as fits into a label.
def _cut(text: str) -> str:
    return text.encode()[:_LABEL_BYTES].decode(errors="ignore")


def of_labels(labels: Dict[str, str]) -> SaveFailed:
    """See to_labels()."""
    fields = {key[7:]: value for key, value in labels.items() if key.startswith("failed-")}
    message = fields.pop("message", "")
    return SaveFailed(message, metadata=fields)
