# SPDX-License-Identifier: Apache-2.0
"""What ends a save, in a thread of its own: it is committed and the older one deleted, or it failed
and is deleted itself."""

import logging
from typing import List, Mapping, Optional

from remesh import errors, names
from remesh.client import Client
from remesh.job import committing
from remesh.job.errors import Superseded
from remesh.job.reserving import Reservation, Reservations
from remesh.job.save import Save, Stopwatch
from remesh.job.worlds import WHOLE, WRITTEN, Worlds
from remesh.state import State
from remesh.worker import LocalState

_LOG = logging.getLogger("remesh")


class Finisher:
    """Of the saves of one process. Makes no call to the group."""

    def __init__(
        self,
        client: Client,
        worlds: Worlds,
        reservations: Reservations,
        *,
        rank: int,
        seals: bool,
        keep: int,
        commit_seconds: float,
    ):
        """rank: 0 decides. seals: whether it is the first of its host. keep, commit_seconds: see
        Core."""
        self._client, self._worlds, self._reservations = client, worlds, reservations
        self._rank, self._decides, self._seals = rank, rank == 0, seals
        self._keep, self._commit_seconds = keep, commit_seconds
        self.superseded: Optional[errors.RemeshError] = None  # why no save can follow

    def run(
        self,
        save: Save,
        local: LocalState,
        labels: Mapping[str, str],
        watch: Stopwatch,
        reserved: Optional[Reservation],
    ) -> None:
        """Until the save is committed, or failed. labels: of process 0, those of the save.
        reserved: the memory of the next save, which is reserved then."""
        older = self._commit(save, local, labels, watch)
        if reserved is None:
            return
        if save.committed.exception():
            reserved.skip()
        else:
            reserved.run(lambda: self._reservations.gone(older))

    # Returns the older saves that it deleted; None if some stay, or another
    # process deletes them.
    def _commit(
        self, save: Save, local: LocalState, labels: Mapping[str, str], watch: Stopwatch
    ) -> Optional[List[State]]:
        older: Optional[List[State]] = None
        commit = committing.Commit(self._worlds, local, self._decides, self._commit_seconds)
        try:
            self._seal(save, commit, labels, watch)
            commit.wait()
            watch.lap("commit")
            if self._decides:
                older = self._delete_older(save.name)
                watch.lap("delete")
        except BaseException as error:  # pylint: disable=broad-except
            save.committed.set_exception(self._explained(save, local, commit, error))
            return None
        save.committed.set_result(None)
        _LOG.info("%s: step %d is saved (%s)", save.name, save.step, watch.text())
        return older

    def give_up(self, name: str, uid: str, error: errors.RemeshError) -> None:
        """Of a save that was not written. A name is used once, so process 0 only deletes it."""
        _LOG.warning("%s failed and is deleted: %s", name, error)
        if self._decides:
            self._delete(name, uid)

    def _delete(self, name: str, uid: str) -> None:
        try:
            state = self._client.state(name)
            # It may have committed after all.
            if state.uid == uid and self._worlds.unfinished(state):
                state.delete()
        except errors.NotFound:
            pass
        except errors.RemeshError as error:
            _LOG.warning("%s stays: %s", name, error)

    # Step and labels first: a save that is whole has its own step.
    def _seal(
        self,
        save: Save,
        commit: committing.Commit,
        labels: Mapping[str, str],
        watch: Stopwatch,
    ) -> None:
        if self._decides:
            state = self._client.state(save.name)
            state.update(step=save.step, labels={**labels, WRITTEN: "1"})
            watch.lap("update")
        if self._seals:
            commit.seal()
            watch.lap("seal")

    # The error of a save that did not commit: on all processes that of process
    # 0, which deletes the save.
    def _explained(
        self, save: Save, local: LocalState, commit: committing.Commit, error: BaseException
    ) -> errors.RemeshError:
        if self._decides:
            return self._decided(save, local, error)
        if not isinstance(error, (errors.NotFound, errors.StateReplaced)):
            _LOG.warning("%s: process %d: %s", save.name, self._rank, error)
            if not commit.is_given_up():
                return committing.failure(save.name, save.step, error)
        return self._learned(save)

    def _decided(self, save: Save, local: LocalState, error: BaseException) -> errors.RemeshError:
        if isinstance(error, errors.StaleEpoch):
            self.superseded = Superseded(f"{save.name}: {error.message}", metadata=error.metadata)
            return self.superseded
        result = committing.failure(save.name, save.step, error)
        try:
            self._worlds.check_current()
            self._worlds.tell(committing.to_labels(result))
        except Superseded as superseded:
            self.superseded = superseded
            return superseded
        except errors.RemeshError as unknown:
            _LOG.warning("the other processes do not learn why %s failed: %s", save.name, unknown)
        self._delete(save.name, local.uid)
        return result

    # Why the save is gone.
    def _learned(self, save: Save) -> errors.RemeshError:
        try:
            told = committing.of_labels(self._worlds.told())
            if told.metadata.get("state") == save.name:
                return told
        except errors.NotFound:
            pass  # the later world has deleted the claim, too
        except errors.RemeshError as error:
            _LOG.warning("nothing tells why %s is gone: %s", save.name, error)
        return Superseded(f"{save.name} is gone: a later world of the job has begun")

    # Keeps the newest saves, whole ones before others, and no unfinished one of
    # this world. Of a committed save: a world that begins after later_world()
    # sees it whole, but one that has begun may have seen it unfinished, and
    # deletes it. Returns what it deleted; None if something stays.
    def _delete_older(self, name: str) -> Optional[List[State]]:
        own = names.parse(name)
        try:
            if self._worlds.later_world():
                return None
            older = [(save_id, state) for save_id, state in self._worlds.saves() if save_id < own]
        except errors.RemeshError as error:
            _LOG.warning("the saves before %s stay: %s", name, error)
            return None
        written = [state for save_id, state in older if not self._left_over(save_id, state)]
        written.sort(key=lambda state: state.phase not in WHOLE)
        left = [state for save_id, state in older if self._left_over(save_id, state)]
        deleted: List[State] = []
        stay = False
        for state in written[self._keep - 1 :] + left:
            try:
                state.delete()
                deleted.append(state)
            except errors.RemeshError as error:
                _LOG.warning("%s stays: %s", state.name, error)
                stay = True
        return None if stay else deleted

    # Whether the save was reserved or begun by this world, and is not written.
    def _left_over(self, save_id: names.SaveId, state: State) -> bool:
        return save_id.world == self._worlds.world and WRITTEN not in state.labels
