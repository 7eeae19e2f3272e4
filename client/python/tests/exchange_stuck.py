# SPDX-License-Identifier: Apache-2.0
"""Who waits for what, when the members of a world have said nothing for too long."""

import os
import shutil
import signal
import subprocess
import time

import grpc

from remesh.v1 import coordination_pb2, coordination_pb2_grpc

_STACKS_SECONDS = 1.0  # until a process has written its stacks


def explain(cluster, last_words, pids):
    """Prints what each member said last, and what its threads wait for (on stderr; the process must
    have registered faulthandler for SIGUSR1), what the server knows, and the end of its log."""
    print("nothing was said for too long; the last words by rank:", flush=True)
    for rank, said in sorted(last_words.items()):
        print(f"  {rank}: {said}", flush=True)
    print(worlds(cluster), flush=True)
    print(f"the server lives: {cluster.server.alive()}; its log ends with", flush=True)
    print(cluster.server.log_tail(30), flush=True)
    print(threads_of(cluster.server.popen.pid), flush=True)
    for rank, pid in enumerate(pids):
        print(f"stacks of member {rank}, process {pid}: see stderr", flush=True)
        show_stacks(pid)


def worlds(cluster):
    """As the server lists them, or why it does not."""
    with cluster.channel() as channel:
        stub = coordination_pb2_grpc.CoordinationServiceStub(channel)
        try:
            listed = stub.ListWorlds(coordination_pb2.ListWorldsRequest(), timeout=10)
        except grpc.RpcError as error:
            return f"the server lists no worlds: {error.code()}: {error.details()}"
    return "\n".join(str(world) for world in listed.worlds)


def threads_of(pid):
    """The stacks of a program's threads, where there is a debugger."""
    if shutil.which("gdb") is None:
        return "no gdb, so no stacks of the server"
    command = ["gdb", "-batch", "-p", str(pid), "-ex", "thread apply all backtrace 20"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ran.stdout + ran.stderr[-500:]


def show_stacks(pid):
    """One process after the other, so that their lines do not mix."""
    try:
        os.kill(pid, signal.SIGUSR1)
        time.sleep(_STACKS_SECONDS)
    except ProcessLookupError:
        print("  it has ended", flush=True)
