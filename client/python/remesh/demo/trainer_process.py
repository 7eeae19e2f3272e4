# SPDX-License-Identifier: Apache-2.0
"""A trainer of the demo, one process a host: obeys one JSON command a line on stdin, answers one
JSON object a line on stdout.

    {"do": "create"}                          declare the state            (the first trainer only)
    {"do": "write"}                           allocate, write, seal        -> {"shards", "bytes"}
    {"do": "wait_ready"}                      until every host has sealed {"do": "reshard", "to",
    "generation"}     start and wait               -> {"execution", "transfer_seconds"}, before it
    {"progress"} ... {"do": "check", "generation"}             read every element           ->
    {"shards", "bytes", "wrong": [text ...]}

The last answer to a command holds "done": true, or "error": text. The process ends with its stdin.
"""

import concurrent.futures
import json
import os
import sys

import grpc
from google.protobuf import json_format

from remesh import errors, oracle
from remesh.demo import model
from remesh.trainer import ExecutionFailed, Trainer


class DemoTrainer:
    """Fills and checks this host's shards by the element oracle."""

    def __init__(self, settings: dict):
        self._settings = settings
        self._config = model.LlamaConfig(**settings["config"])
        self._state = settings["state"]
        self._trainer = Trainer(settings["server"], settings["worker_socket"])
        # NumPy lets go of the interpreter while it computes.
        self._pool = concurrent.futures.ThreadPoolExecutor(
            max(1, (os.cpu_count() or 1) // settings["trainers"])
        )

    def create(self, _):
        settings = self._settings
        self._trainer.create_state(
            model.state(
                self._state, self._config, settings["hosts"], settings["nic_bytes_per_second"]
            )
        )
        return {}

    def write(self, _):
        shards = self._trainer.allocate(self._state)
        list(self._pool.map(_fill, shards))
        self._trainer.seal(self._state)
        return _size(shards)

    def wait_ready(self, command):
        self._trainer.wait_ready(self._state, command["timeout_seconds"])
        return {}

    def reshard(self, command):
        started = self._trainer.start_reshard(
            self._state, command["generation"], model.targets(command["to"], self._config)
        )
        ended = self._trainer.wait_execution(
            started.name,
            command["timeout_seconds"],
            on_change=lambda execution: _say({"progress": _to_json(execution)}),
        )
        transfer = (
            ended.transfer_end_time.ToNanoseconds() - ended.transfer_start_time.ToNanoseconds()
        )
        return {"execution": _to_json(ended), "transfer_seconds": transfer / 1e9}

    def check(self, command):
        shards = self._trainer.read(self._state, command["generation"])
        wrong = [text for text in self._pool.map(_check, shards) if text]
        return {**_size(shards), "wrong": wrong}


def _fill(shard):
    info = shard.info
    oracle.fill(shard.bytes, info.array, info.element_type, info.shape, info.box.lo, info.box.hi)


def _check(shard):
    info = shard.info
    wrong = oracle.check(
        shard.bytes, info.array, info.element_type, info.shape, info.box.lo, info.box.hi
    )
    return wrong and f"{info.array} on device {info.device}: {wrong}"


def _size(shards):
    return {"shards": len(shards), "bytes": sum(shard.info.bytes for shard in shards)}


def _to_json(message):
    return json_format.MessageToDict(message, including_default_value_fields=True)


def _say(answer):
    print(json.dumps(answer), flush=True)


def main() -> int:
    trainer = DemoTrainer(json.loads(sys.argv[1]))
    for line in sys.stdin:
        command = json.loads(line)
        try:
            _say({**getattr(trainer, command["do"])(command), "done": True})
        except grpc.RpcError as error:
            _say({"error": errors.describe(error)})
        except ExecutionFailed as error:
            _say({"error": str(error)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
