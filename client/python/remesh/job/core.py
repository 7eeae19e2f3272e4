# SPDX-License-Identifier: Apache-2.0
"""Core: a job of any framework. remesh.jax.Job is a Core that knows pytrees."""

import atexit
import json
import logging
import operator
import sys
import time
from typing import Any, List, Mapping, Optional, Sequence, Union

from remesh import client as clients
from remesh import errors, forks, group, names, storage
from remesh.job.leaving import Decision, GroupNotice, Notice, Reason
from remesh.job.members import Members, introduction
from remesh.job.pieces import Piece
from remesh.job.restoring import Described, Found, Restorer
from remesh.job.save import Save
from remesh.job.saving import Saver, Settings
from remesh.job.server_notice import ServerNotice
from remesh.job.worlds import Worlds
from remesh.server_group import ServerGroup, again
from remesh.world_place import Place, present_place

_LOG = logging.getLogger("remesh")
_EXIT_SECONDS = 30.0
# More than a restore's move and patience together, for which all wait on
# process 0.
_GROUP_SECONDS = 900.0


class Core:
    """A job that outlives its processes: what they save stays in the memory of the workers, and the
    processes of the next world restore it in their own layout.

    Every process of the world makes the same calls, in the same order, from one thread: the
    constructor, save(), restore(), should_save(), leaving(). The first three end in one
    exchange, so that all return, or all raise the same error, whose `process` says where it
    happened. Process 0 alone talks to the server; each process talks to its host's worker."""

    def __init__(
        self,
        name: str,
        *,
        replicas: Optional[int] = None,
        keep: int = 1,
        every: Optional[int] = None,
        seconds: Optional[float] = None,
        patience: float = 30.0,
        commit_seconds: float = 300.0,
        reserve: bool = True,
        poll: int = 10,
        exit: bool = True,  # pylint: disable=redefined-builtin
        job_group: Optional[group.Group] = None,
        notice: Optional[Notice] = None,
        forming: float = 300.0,
        away: float = 120.0,
        client: Optional[clients.Client] = None,
    ):
        """name: the job's, and that of the certificate under TLS. replicas: on how many of the
        hosts that hold a box a save keeps it; None: on 2 where two hosts hold it anyway, else on 1.
        At 1 the loss of any host costs the save. keep: saves to keep. every, seconds: when
        should_save() says yes. patience: seconds that a restore waits for hosts that are away.
        commit_seconds: that a save may take to commit. reserve: whether the memory of the next save
        is reserved in the background while the job runs, which makes saves several times shorter.
        job_group: the processes; None: those that the launcher started, as the server knows them
        (ServerGroup, world jobs/NAME/worlds/main): a process that dies is named to the others, and
        one of an earlier world can change nothing any more. forming: seconds that the processes
        wait for one another to come; BarrierTimeout names who is absent then. away: seconds without
        a word of the server after which calls give it up (ServerAway). poll: of another job_group,
        steps from one exchange of notices to the next. exit: whether close() of a job that left
        ends the process. notice: what tells the job to leave; None: SIGTERM. client: this process's
        connection, which stays open at close(); None: connect(), whose settings are variables.

        JobRunsTwice, RankTaken, ValueError, and what connect() and ServerGroup raise."""
        self.name = names.check_job(name)
        _check_positive("keep", keep)
        _check_positive("every", every)
        _check_positive("seconds", seconds)
        _check_positive("poll", poll)
        self._forming, self._away = forming, away
        self._own_client = client is None
        self._client: Optional[clients.Client] = client
        self._own_groups: List[ServerGroup] = []
        self._group = job_group or self._server_group("main")
        self._every, self._seconds = every, seconds
        self._next_step, self._rated = 0, (0, time.monotonic())
        self._notice = notice or self._default_notice(poll)
        self._decision = Decision(self._notice)
        self._left: Optional[Reason] = None
        self._exit = exit
        self._closed = False
        self._fork = forks.ForkGuard(f"job {name}")
        self._join(Settings(replicas, keep, commit_seconds, reserve), patience)
        atexit.register(self._close_at_exit)

    # The processes that the launcher started, in a world of the job.
    def _server_group(self, world: str) -> ServerGroup:
        if self._client is None:
            self._client = clients.connect()
        made = ServerGroup(
            f"{names.job_name(self.name)}/worlds/{world}",
            self._client.channel,
            self._place(),
            deadline=_GROUP_SECONDS,
            forming=self._forming,
            away=self._away,
            host=self._client.host.name,
        )
        self._own_groups.append(made)
        return made

    # Which of them this is. A framework may know it.
    def _place(self) -> Place:
        return present_place()

    # What tells the job to leave. A framework may have its own.
    def _default_notice(self, poll: int) -> Notice:
        if isinstance(self._group, ServerGroup):
            return ServerNotice(self._group)
        return GroupNotice(self._group, poll)

    # Connects, and claims the next world on process 0.
    def _join(self, settings: Settings, patience: float) -> None:
        try:
            if self._client is None:
                self._client = clients.connect()
            self._client = self._client.fenced(getattr(self._group, "fence", None))
            payload: Any = introduction(self._client.host)
        except Exception as error:  # pylint: disable=broad-except
            payload = error
        worlds: List[Worlds] = []
        try:
            answer = group.exchange(
                self._group,
                "job: join",
                payload,
                lambda lines: self._claim(lines, worlds, patience),
            )
        except BaseException:
            self._leave_groups()
            self._disconnect()
            raise
        members, world = _opened(answer)
        self.world = world
        mine = worlds[0] if worlds else Worlds(self._client, self.name, members.hosts, patience)
        mine.world = world
        self._saver = Saver(self._client, self._group, members, mine, settings)
        self._restorer = Restorer(self._client, self._group, members, mine, patience)

    def _claim(self, lines: List[bytes], worlds: List[Worlds], patience: float) -> bytes:
        members = Members.of(lines)
        worlds.append(Worlds(self._client, self.name, members.hosts, patience))
        world = worlds[0].claim(members.hosts[members.host_of[0]])
        return _joined(members, world)

    @property
    def rank(self) -> int:
        """This process."""
        return self._group.rank

    @property
    def size(self) -> int:
        """Processes of this world."""
        return self._group.size

    @property
    def socket(self) -> str:
        """That of the host's worker."""
        return self._client.worker.socket

    def save_pieces(
        self,
        saved: Union[Sequence[Piece], Exception],
        step: int,
        *,
        extra: Any = None,
        block: bool = False,
        labels: Optional[Mapping[str, str]] = None,
    ) -> Save:
        """Saves the arrays as the state after `step` steps. Returns when this process may write its
        arrays again; the save commits in the background, and an error there is raised by the next
        save() or close(). block: returns when it has committed. saved: what this process holds, or
        the error that it met instead, which all processes raise.

        A second save waits for the first's commit. The older save is deleted when the new one is
        whole. extra: bytes, or what JSON can hold, of this process: at most 1 MiB, and 64 MiB of
        all. labels: more labels of the state, none of them remesh-...; those of process 0 count.

        StructureMismatch, NoRoom, Superseded, SaveFailed (of the save before, or of this one, whose
        memory a worker lost), ExtraTooLarge, LayoutTooLarge, BadArgument.
        """
        self._check_open()
        step = operator.index(step)  # of NumPy or JAX, too
        save, self._next_step = self._saver.save(
            saved, step, extra, self._after(step), block, labels or {}
        )
        return save

    def restore_arrays(
        self, wanted: Sequence[storage.Array], *, step: Optional[int] = None, strict: bool = True
    ) -> Optional[Found]:
        """The newest save that is whole, or that of `step`, as this world holds the arrays; None if
        the job has no save. wanted: may be an error, as in save_pieces().

        A save whose hosts are away is waited for, up to `patience` seconds, before an older one is
        taken. strict: StructureMismatch unless the save has exactly these names, shapes and types;
        otherwise only arrays that it has are restored. A save of this world that is not committed
        yet is waited for.

        NotCovered if no save is whole; NotFound for a step that was not saved; NoRoom; MoveFailed.
        """
        self._check_open()
        self._saver.wait()
        self._saver.free()  # a restore may need the memory that is reserved
        found = self._restorer.restore(wanted, _index(step), strict)
        if found:
            self._rated = (found.step, time.monotonic())
        return found

    def newest(self, step: Optional[int] = None) -> Optional[Described]:
        """The newest save that is whole, or the newest of `step`, on all processes; None if the job
        has none. Waits as restore_arrays() does. If none is whole, the newest that was written:
        restoring it says what is missing."""
        self._check_open()
        self._saver.wait()
        return self._restorer.newest(_index(step))

    def should_save(self, step: int) -> bool:
        """Whether to save after `step`, counted from 0: then save(…, step + 1). Equal on all
        processes. With `every`, each so many steps; with `seconds`, about that often, at steps that
        process 0 chose in the save before; and when leaving(step)."""
        if self._decision.at(step) is not None:
            return True
        if self._every is not None:
            return (step + 1) % self._every == 0
        return self._seconds is not None and step + 1 >= self._next_step

    def leaving(self, step: int) -> bool:
        """Whether to stop after `step`, because a process must leave: by SIGTERM, or leave().
        Equal on all processes, at a step after that of the notice, which should_save() says yes to,
        too. So save() first, then ask this, then stop. Each process asks at every step, or at least
        at equal ones.

        The first call begins to listen: until then SIGTERM does what it did before, and
        should_save() knows nothing of it. Raises MemberLost if a process has died."""
        self._decision.start()
        if self._left is None:
            self._check_world()
        reason = self._decision.at(step)
        if reason is not None and self._left is None:
            self._left = reason
            _LOG.info("job %s leaves after step %d: %s", self.name, step, reason.name)
        return reason is not None

    def leave(self, next_size: Optional[int] = None) -> None:
        """Makes all processes leave soon, so that the job can start again with another size: see
        leaving(). One process is enough. In any thread. next_size: how many processes
        `remesh launch` starts then; None: what its command line says."""
        if next_size is not None:
            _check_positive("next_size", next_size)
        self._notice.tell(Reason.RESIZED, next_size or 0)

    @property
    def exit_status(self) -> int:
        """With which the process should exit: 143 if the job left because of a SIGTERM, 75 if
        because of leave(), else 0."""
        return 0 if self._left is None else int(self._left)

    def close(self) -> None:
        """Waits for the last save, and raises its error. May be called twice, and by one process
        alone. A forked child has nothing to wait for. If the job has left, it then raises
        SystemExit with exit_status, unless the job was made with exit=False: let it be the last
        call."""
        if self._closed or not self._fork.intact():
            return
        self._close()
        if self._exit and self._left is not None:
            sys.exit(self.exit_status)

    def _close(self) -> None:
        self._closed = True
        atexit.unregister(self._close_at_exit)
        try:
            self._saver.finish()
        finally:
            self._notice.close()
            self._saver.free()
            self._leave_groups()
            self._disconnect()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_) -> None:
        if kind is None:
            self.close()
        elif not self._closed and self._fork.intact():
            self._close()

    # The step that `seconds` after this one should come to, at the rate since
    # the save before.
    def _after(self, step: int) -> int:
        if self._seconds is None:
            return 0
        then, at = self._rated
        now = time.monotonic()
        self._rated = (step, now)
        rate = max(step - then, 1) / max(now - at, 1e-6)
        return step + max(int(self._seconds * rate), 1)

    def _check_open(self) -> None:
        self._fork.check()
        if self._closed:
            raise errors.Closed(f"job {self.name} is closed")

    # Raises why the world is over, if the group knows that without a call.
    def _check_world(self) -> None:
        failure = getattr(self._group, "failure", lambda: None)()
        if failure is not None:
            raise again(failure)

    def _leave_groups(self) -> None:
        for each in self._own_groups:
            each.close()

    def _disconnect(self) -> None:
        if self._own_client and self._client is not None:
            self._client.close()

    # A process that ends while it saves waits for the commit, but not without
    # end, and never raises. A forked child has no save.
    def _close_at_exit(self) -> None:
        if not self._fork.intact():
            return
        try:
            self._saver.finish_within(_EXIT_SECONDS)
            self._close()
        except Exception as error:  # pylint: disable=broad-except
            _LOG.warning("at exit: %s", error)


def _check_positive(field: str, value) -> None:
    if value is not None and not value > 0:
        raise ValueError(f"{field}: value {value!r} must be above 0")


def _index(step: Optional[int]) -> Optional[int]:
    return None if step is None else operator.index(step)


def _joined(members: Members, world: int) -> bytes:
    return json.dumps({"members": members.to_json(), "world": world}).encode()


def _opened(answer: bytes):
    fields = json.loads(answer)
    return Members.from_json(fields["members"]), fields["world"]
