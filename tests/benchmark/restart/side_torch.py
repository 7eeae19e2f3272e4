# SPDX-License-Identifier: Apache-2.0
"""A process of PyTorch for scripts/bench restart: remesh.torch.Job beside DCP's own files."""

import os
import pathlib
import shutil
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import remesh.torch
from process import ARRAYS, ROWS, Processes, Way, columns, join_commits, serve


def local(tree):
    """What this process holds, without a copy."""
    return [tensor.to_local().numpy() for tensor in tree.values()]


class InPlace(Way):
    """Restores into tensors that are there, as PyTorch's users do."""

    def __init__(self, wanted):
        self._wanted = wanted
        self.restored = local(wanted)

    def forget(self):
        for array in self.restored:
            array[:] = 0


class Remesh(InPlace):
    def __init__(self, name, wanted, **settings):
        super().__init__(wanted)
        self._job = remesh.torch.Job(name, **settings)

    def save(self, state, step):
        save = self._job.save(state, step)
        return lambda: save.wait().seconds

    def prepare(self):
        join_commits()

    def restore(self, step):
        return self._job.load(self._wanted, step=step).seconds

    def close(self):
        self._job.close()


class Dcp(InPlace):
    """A folder for each step. The older one is deleted when the newer is whole."""

    def __init__(self, folder, wanted, asynchronous):
        super().__init__(wanted)
        self._folder, self._asynchronous = folder, asynchronous

    def save(self, state, step):
        if not self._asynchronous:
            dcp.save(state, checkpoint_id=self._folder / str(step))
            self._delete_older(step)
            return dict
        saved = dcp.async_save(state, checkpoint_id=self._folder / str(step))
        return lambda: self._finished(saved, step)

    def _finished(self, saved, step):
        saved.result()
        self._delete_older(step)
        return {}

    def _delete_older(self, step):
        if dist.get_rank() == 0:
            for folder in self._folder.iterdir():
                if folder.name != str(step):
                    shutil.rmtree(folder)

    def restore(self, step):
        dcp.load(self._wanted, checkpoint_id=self._folder / str(step))
        return {}

    def close(self):
        """Has nothing open."""


class Side(Processes):
    def __init__(self, order, rank):
        super().__init__(order, rank)
        host, port = order["coordinator"].rsplit(":", 1)
        os.environ.update(MASTER_ADDR=host, MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
        dist.init_process_group("gloo", rank=rank, world_size=order["size"])
        self._mesh = init_device_mesh("cpu", (order["size"],))
        if order["saves"]:
            self.state = self._tree(torch.rand)
        self._wanted = self._tree(torch.zeros)

    # Of whole tensors, a piece of which every process keeps.
    def _tree(self, fill):
        torch.manual_seed(1)
        shape = (ROWS, columns(self.order["mib"]))
        cut = lambda: distribute_tensor(fill(*shape), self._mesh, [Shard(0)])
        return {f"w{i}": cut() for i in range(ARRAYS)}

    def barrier(self):
        dist.barrier()

    def local_arrays(self):
        return local(self.state)

    def make_way(self, way):
        if way.startswith("remesh"):
            settings = self.order["settings"].get(way, {})
            return Remesh(way.replace(" ", "-"), self._wanted, **settings)
        where, asynchronous = way.split()[1], way.endswith("async")
        folder = pathlib.Path(self.order[where]) / way.replace(" ", "-")
        return Dcp(folder, self._wanted, asynchronous)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    serve(Side)
    os._exit(0)  # with gloo's threads
