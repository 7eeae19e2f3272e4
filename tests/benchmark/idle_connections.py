#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What connections that say nothing cost a server and a worker with a low limit of open files. Run
by hand; prints a table.

    PYTHONPATH=build/release/python tests/benchmark/idle_connections.py [--bin-dir
    build/release/bin] [--files 1024]

Twice as many idle connections as files may be open, on the server's port, the worker's socket and
its data port, then 50 readers of /metrics that do not read: seconds until a new client is answered
while they stay, and after; the process's CPU and log in the meantime.
"""

import argparse
import os
import pathlib
import re
import resource
import socket
import tempfile
import time
import urllib.request

import grpc

from remesh.testing import CHANNEL_OPTIONS, LocalCluster
from remesh.v1 import local_pb2, local_pb2_grpc, worker_pb2, worker_pb2_grpc

PATIENCE_SECONDS = 20
WATCH_SECONDS = 4
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def limited(bin_dir: pathlib.Path, folder: pathlib.Path, files: int) -> pathlib.Path:
    for name in ["remesh-server", "remesh-worker"]:
        script = folder / name
        script.write_text(f'#!/bin/sh\nulimit -n {files}\nexec "{bin_dir.resolve() / name}" "$@"\n')
        script.chmod(0o755)
    return folder


def cpu_seconds(process) -> float:
    fields = pathlib.Path(f"/proc/{process.popen.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watch(process) -> str:
    """CPU and log of a process over some seconds."""
    cpu, log, start = cpu_seconds(process), process.log.stat().st_size, time.monotonic()
    time.sleep(WATCH_SECONDS)
    seconds = time.monotonic() - start
    return (
        f"cpu {(cpu_seconds(process) - cpu) / seconds:.3f}, log "
        f"{(process.log.stat().st_size - log) / seconds / 1e3:.1f} kB/s"
    )


def timed(call) -> str:
    start = time.monotonic()
    try:
        call()
    except (grpc.RpcError, OSError) as error:
        code = error.code() if isinstance(error, grpc.RpcError) else None
        if code != grpc.StatusCode.NOT_FOUND:  # an answer, too
            return f"no answer within {time.monotonic() - start:.1f} s"
    return f"{time.monotonic() - start:.2f} s"


def call_server(cluster):
    with cluster.channel() as channel:
        worker_pb2_grpc.WorkerServiceStub(channel).ListWorkers(
            worker_pb2.ListWorkersRequest(), timeout=PATIENCE_SECONDS, wait_for_ready=True
        )


def call_worker(cluster, host):
    with grpc.insecure_channel(
        f"unix:{cluster.worker_socket(host)}", options=CHANNEL_OPTIONS
    ) as channel:
        local_pb2_grpc.LocalServiceStub(channel).GetShards(
            local_pb2.GetShardsRequest(state="jobs/a/states/b", generation=1),
            timeout=PATIENCE_SECONDS,
            wait_for_ready=True,
        )


def scrape(url):
    with OPENER.open(url, timeout=PATIENCE_SECONDS) as answer:
        answer.read()


def connect(address, source=None):
    stranger = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    stranger.settimeout(PATIENCE_SECONDS)
    if source:
        stranger.bind((source, 0))
    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    stranger.connect(address)
    return stranger


def strangers(address, count):
    tcp = not isinstance(address, str)
    return [connect(address, f"127.0.0.{2 + i % 8}" if tcp else None) for i in range(count)]


def measure(name, process, address, count, call, first_words=b""):
    try:
        found = strangers(address, count)
    except OSError as error:
        print(f"{name:24} connecting {count}: {error}")
        return
    for stranger in found:
        stranger.sendall(first_words) if first_words else None
    print(f"{name:24} {count} stay: {timed(call)}; {watch(process)}", flush=True)
    for stranger in found:
        stranger.close()
    print(f"{name:24} they are gone: {timed(call)}; {watch(process)}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin-dir", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--files", type=int, default=1024)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory() as folder:
        binaries = limited(options.bin_dir, pathlib.Path(folder), options.files)
        with LocalCluster(binaries, hosts=1, buffer_bytes=16 << 20) as cluster:
            host = cluster.host_names[0]
            worker, server = cluster.workers[host], cluster.server
            print(f"idle: server {watch(server)}; worker {watch(worker)}")
            port = int(cluster.server_address.rsplit(":", 1)[1])
            data = int(re.search(r"data_address=127.0.0.1:(\d+)", worker.log.read_text())[1])
            metrics = int(re.search(r":(\d+)/", cluster.server_metrics_url)[1])
            measure(
                "slow readers of /metrics",
                server,
                ("127.0.0.1", metrics),
                50,
                lambda: scrape(cluster.server_metrics_url),
                b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 20,
            )
            measure(
                "silent on /metrics",
                server,
                ("127.0.0.1", metrics),
                50,
                lambda: scrape(cluster.server_metrics_url),
            )
            measure(
                "server's port",
                server,
                ("127.0.0.1", port),
                2 * options.files,
                lambda: call_server(cluster),
            )
            measure(
                "worker's socket",
                worker,
                cluster.worker_socket(host),
                2 * options.files,
                lambda: call_worker(cluster, host),
            )
            measure(
                "worker's data port",
                worker,
                ("127.0.0.1", data),
                2 * options.files,
                lambda: call_worker(cluster, host),
            )
            print(f"idle again: server {watch(server)}; worker {watch(worker)}")


if __name__ == "__main__":
    main()
