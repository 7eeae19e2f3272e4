"""Trains a small transformer on data it makes, by FSDP2, in processes that may die: torchrun --nproc-per-node N torch_elastic.py [STEPS],
or remesh launch -n N -- python torch_elastic.py [STEPS]. Kill any and start again, with as many as you like: the loss goes on."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import remesh.torch

LAYERS, WIDTH, HEADS, WORDS, LENGTH, BATCH, RATE = 2, 100, 4, 50, 32, 24, 3e-3

class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = lambda: nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH + 1, dropout=0.0, batch_first=True, norm_first=True)
        self.layers, self.head = nn.ModuleList(layer() for _ in range(LAYERS)), nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight[:tokens.shape[1]]
        for layer in self.layers: x = layer(x, nn.Transformer.generate_square_subsequent_mask(len(tokens[0])), is_causal=True)
        return self.head(x)

class App:
    def __init__(self):
        torch.manual_seed(0)
        self.model, mesh = Transformer(), init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in self.model.layers: fully_shard(layer, mesh=mesh)
        fully_shard(self.model, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE)

    def state_dict(self): return dict(zip(("model", "optimizer"), get_state_dict(self.model, self.optimizer)))
    def load_state_dict(self, state): set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])

    def train(self, step):
        random = torch.Generator().manual_seed(step)  # each line counts upwards from a random word by a random stride
        first, stride = (torch.randint(1, most, (BATCH, 1), generator=random) for most in (WORDS, 6))
        lines = (first + stride * torch.arange(LENGTH + 1))[dist.get_rank()::dist.get_world_size()] % WORDS
        loss = nn.functional.cross_entropy(self.model(lines[:, :-1]).flatten(0, 1), lines[:, 1:].flatten())
        self.optimizer.zero_grad(); loss.backward(); self.optimizer.step()
        dist.all_reduce(total := loss.detach() / dist.get_world_size())
        return total.item()

def main(steps=300):
    dist.init_process_group("gloo")
    app, job = App(), remesh.torch.Job("torch-elastic", every=10)
    found = job.load({"app": app})
    for step in range(found.step if found else 0, steps):
        loss = app.train(step)
        if job.rank == 0: print(f"step {step} loss {loss:.4f} on {job.size} processes", flush=True)
        if job.should_save(step): job.save({"app": app}, step + 1)
        if job.leaving(step): break
    job.close()
    dist.destroy_process_group()

if __name__ == "__main__": main(*map(int, sys.argv[1:]))
