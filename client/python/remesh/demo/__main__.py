# SPDX-License-Identifier: Apache-2.0
"""python3 -m remesh.demo --bin-dir DIR: a server, four workers and four trainers move
Llama-3.2-1B's parameters.

FSDP-8 -> 2×TP-3 (6 devices, uneven) -> FSDP-8 with the devices permuted, over TCP on this machine's
loopback; every element is checked after each move. Exit 0 when all was right, 1 when anything
failed, 130 after Ctrl-C. It leaves nothing behind.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import Dict, List

from remesh.demo import model, report
from remesh.testing import ClusterError, LocalCluster, Process

STATE = "jobs/demo/states/parameters"
NIC_BYTES_PER_SECOND = 12.5e9  # what the plan's seconds are computed for: 100 Gbit/s
_HOSTS = 4


class DemoFailed(Exception):
    """Something was not as it must be; the message says what."""


class TrainerProcess:
    """Our end of a trainer: commands go to its stdin, answers come from a thread that reads its
    stdout."""

    def __init__(self, cluster: LocalCluster, host: str, config: model.LlamaConfig):
        settings = {
            "server": cluster.server_address,
            "worker_socket": cluster.worker_socket(host),
            "state": STATE,
            "config": dataclasses.asdict(config),
            "trainers": len(cluster.host_names),
            "hosts": {name: cluster.device_ids(name) for name in cluster.host_names},
            "nic_bytes_per_second": NIC_BYTES_PER_SECOND,
        }
        self.process = Process(
            f"trainer on {host}",
            [sys.executable, "-m", "remesh.demo.trainer_process", json.dumps(settings)],
            cluster.root / f"trainer-{host}.log",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._answers: queue.Queue = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.popen.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)

    def send(self, do: str, **arguments) -> None:
        try:
            self.process.popen.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.popen.stdin.flush()
        except BrokenPipeError:
            raise self.process.failure("died") from None

    def answer(self, timeout_seconds: float, on_progress=lambda execution: None) -> dict:
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                answer = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise self.process.failure(f"no answer within {timeout_seconds:.0f} s") from None
            if answer is None:
                raise self.process.failure("died")
            if "error" in answer:
                raise DemoFailed(f"{self.process.name}: {answer['error']}")
            if "done" in answer:
                return answer
            on_progress(answer["progress"])


class Demo:
    """The run itself, step by step."""

    def __init__(self, cluster: LocalCluster, config: model.LlamaConfig, step_seconds: float):
        self._cluster, self._step_seconds = cluster, step_seconds
        self._trainers = [TrainerProcess(cluster, host, config) for host in cluster.host_names]

    def close(self):
        for trainer in self._trainers:
            trainer.process.kill()

    def write(self) -> None:
        started = time.monotonic()
        self._first("create")
        sizes = self._all("write")
        self._first("wait_ready", timeout_seconds=self._step_seconds)
        report.wrote(
            model.FSDP_8, len(self._trainers), _sum(sizes, "bytes"), time.monotonic() - started
        )

    def move(self, source: str, target: str, generation: int) -> int:
        """One reshard from `generation`, and the check of every element of the one that it makes,
        which is returned."""
        report.headline(source, target)
        started = time.monotonic()
        with report.Progress() as progress:
            answer = self._first(
                "reshard",
                on_progress=progress.show,
                to=target,
                generation=generation,
                timeout_seconds=self._step_seconds,
            )
        execution = answer["execution"]
        report.moved(execution, answer["transfer_seconds"], time.monotonic() - started)
        started = time.monotonic()
        moved_to = int(execution["targetGeneration"])
        answers = self._all("check", generation=moved_to)
        wrong = [text for answer in answers for text in answer["wrong"]]
        if wrong:
            raise DemoFailed(
                "\n".join(["elements are wrong:", *wrong[:10], f"({len(wrong)} shards in all)"])
            )
        expected = int(execution["summary"]["totalBytes"])
        if _sum(answers, "bytes") != expected:
            raise DemoFailed(
                f"{_sum(answers, 'bytes')} bytes lie in the shards, but the plan has {expected}"
            )
        report.verified(_sum(answers, "shards"), expected, time.monotonic() - started)
        return moved_to

    def _first(self, do, on_progress=lambda execution: None, **arguments) -> dict:
        self._trainers[0].send(do, **arguments)
        return self._trainers[0].answer(self._step_seconds, on_progress)

    def _all(self, do, **arguments) -> List[dict]:
        for trainer in self._trainers:
            trainer.send(do, **arguments)
        return [trainer.answer(self._step_seconds) for trainer in self._trainers]


def _sum(answers: List[Dict], key: str) -> int:
    return sum(answer[key] for answer in answers)


def _run(arguments) -> None:
    config = model.SMALL if arguments.small else model.LLAMA_3_2_1B
    once = model.total_bytes(config)
    report.title(
        "a small stand-in for Llama-3.2-1B" if arguments.small else "Llama-3.2-1B",
        len(model.parameters(config)),
        once,
    )
    started = time.monotonic()
    # Source and target of a move lie side by side: one copy and two.
    with LocalCluster(
        arguments.bin_dir,
        _HOSTS,
        buffer_bytes=int(3.1 * once),
        nic_bytes_per_second=NIC_BYTES_PER_SECOND,
        device=arguments.device,
    ) as cluster:
        report.started(cluster, time.monotonic() - started)
        demo = Demo(cluster, config, arguments.step_seconds)
        try:
            demo.write()
            moved_to = demo.move(model.FSDP_8, model.TP_3_TWICE, generation=1)
            demo.move(model.TP_3_TWICE, model.FSDP_8_PERMUTED, generation=moved_to)
            report.where_to_look(cluster, arguments.keep)
            if arguments.keep:
                signal.pause()
        except ClusterError as error:
            raise ClusterError(f"{error}{_dead_processes(cluster)}") from None
        except DemoFailed as error:
            raise DemoFailed(f"{error}{_log_tails(cluster)}") from None
        finally:
            demo.close()


def _processes(cluster) -> List[Process]:
    return [cluster.server, *cluster.workers.values()]


def _dead_processes(cluster) -> str:
    return "".join(f"\n{p.failure('is dead')}" for p in _processes(cluster) if not p.alive())


def _log_tails(cluster) -> str:
    return "".join(f"\nend of {p.name}'s log:\n{p.log_tail(8)}" for p in _processes(cluster))


def _parse(argv):
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bin-dir", required=True, type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument(
        "--small",
        action="store_true",
        help="a hundredth of the bytes: seconds instead of half a minute",
    )
    parser.add_argument(
        "--device",
        choices=("host", "sim"),
        default="host",
        help="sim: simulated GPUs that exchange by a fake NCCL (default host)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep server and workers running until Ctrl-C"
    )
    parser.add_argument(
        "--step-seconds",
        type=float,
        default=180.0,
        help="longest that one step may take (default 180)",
    )
    return parser.parse_args(argv)


def _interrupt(*_):
    raise KeyboardInterrupt


def main() -> int:
    arguments = _parse(sys.argv[1:])
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        _run(arguments)
        return 0
    except KeyboardInterrupt:
        print("\ninterrupted; everything is cleaned up", file=sys.stderr)
        return 130
    except (ClusterError, DemoFailed, OSError) as error:
        print(f"\nremesh demo failed: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True, encoding="utf-8")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    sys.exit(main())
