# SPDX-License-Identifier: Apache-2.0
"""JAX jobs that outlive their processes. By JAX's public API only.

    jax.distributed.initialize()
    job = remesh.jax.Job("llama", every=200)             # $REMESH_SOCKET: the worker knows the rest
    state, step, extras = job.restore(abstract) or (init(), 0, [])
    for step in range(step, steps):
        state, loss = train(state, batch(step))
        if job.should_save(step): job.save(state, step + 1)
        if job.leaving(step): break
    job.close()

leaves.py says what the leaves of a pytree are to remesh.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Union

import jax

from remesh import group as groups
from remesh import storage
from remesh.jax import leaves
from remesh.jax.notice import JaxNotice, JaxServerNotice
from remesh.job import Core, Notice, Piece, Save
from remesh.server_group import ServerGroup

__all__ = ["Job", "Restored"]


class _Restored(NamedTuple):
    tree: Any
    step: int
    extras: List[Any]


class Restored(_Restored):
    """What restore() found: (tree, step, extras). extras: of every process of the world that saved,
    by its rank. save: its name. seconds: by phase."""

    save: str
    seconds: Dict[str, float]


class Job(Core):
    """A job whose state is a pytree: arrays of any sharding, PRNG keys, NumPy arrays, Python
    numbers; optax's and flax's states among them. Leaves are named by their paths. Python numbers,
    NumPy arrays and arrays that only this process can address must be equal on all processes.

    See Core for its rules: all processes make the same calls, in the same order, in one thread, the
    one that runs JAX.
    """

    def __init__(self, name: str, *, group: Optional[groups.Group] = None, **settings: Any):
        """group: None: all processes of jax.distributed, as the server knows them; JaxGroup(): the
        same by collective operations of JAX, which have no deadline. settings: those of Core;
        SIGTERM is noticed by JAX itself, without a poll, unless jax_enable_preemption_service is
        off."""
        super().__init__(name, job_group=group, **settings)
        self._holders = leaves.HoldersOf(self.size)

    def _default_notice(self, poll: int) -> Notice:
        if not JaxNotice.is_available():
            return super()._default_notice(poll)
        if isinstance(self._group, ServerGroup):
            return JaxServerNotice(self._group)
        return JaxNotice(self._group)

    def save(self, tree: Any, step: int, *, extra: Any = None, block: bool = False) -> Save:
        """Saves the tree as the state after `step` steps: see Core.save_pieces(). Returns when the
        tree's arrays may be donated.

        ProcessFailed names a leaf that cannot be saved, on all processes."""
        try:
            named, _ = leaves.flatten(tree)
            saved: Union[List[Piece], Exception] = [
                leaves.piece(name, leaf, self._holders) for name, leaf in named if leaves.size(leaf)
            ]
        except Exception as error:  # pylint: disable=broad-exception-caught
            saved = error
        return self.save_pieces(saved, step, extra=extra, block=block)

    def restore(
        self,
        abstract: Any,
        *,
        step: Optional[int] = None,
        alias: Optional[bool] = None,
        strict: bool = True
    ) -> Optional[Restored]:
        """The newest whole save, or that of `step`, as the tree `abstract`: of jax.ShapeDtypeStruct
        with shardings, or of arrays like those that are wanted. None if the job has no save. See
        Core.restore_arrays().

        alias: None: arrays on CPU devices share the workers' pages where alignment allows it, which
        costs neither time nor memory. The pages are read-only: JAX never writes into them, but they
        stay in memory until the last array is gone. False: copies. strict: False: leaves that the
        save does not have, or has with another shape or type, are returned as they are in
        `abstract`.

        A leaf without a sharding is restored to this process's default device."""
        try:
            named, structure = leaves.flatten(abstract)
            wanted: Union[List[storage.Array], Exception] = [
                leaves.array(name, leaf, self._holders) for name, leaf in named if leaves.size(leaf)
            ]
        except Exception as error:  # pylint: disable=broad-exception-caught
            wanted = error
        found = self.restore_arrays(wanted, step=step, strict=strict)
        if found is None:
            return None
        with groups.together(self._group, "restore: made"):
            reader = leaves.Reader(found.shards, alias is not False)
            made = [reader.leaf(name, leaf) for name, leaf in named]
            tree = jax.tree_util.tree_unflatten(structure, made)
        restored = Restored(tree, found.step, found.extras)
        restored.save, restored.seconds = found.save, found.seconds
        return restored
