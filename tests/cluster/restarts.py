# SPDX-License-Identifier: Apache-2.0
"""Steps in which a process or its pod ends and comes back, with the seconds that this takes."""

import os
import pathlib
import time

from machine import wait_for
from release import SPACE
from words import spread

REPEATS = 10


def kill_server(r):
    """kill -9 of the process. A new pod before each, else the kubelet makes the second wait."""
    measured = []
    for _ in range(REPEATS):
        measured.append(
            r.seconds_until_attached(
                lambda server: r.cluster.node(server["spec"]["nodeName"]).kill_container(
                    server["status"]["containerStatuses"][0]["containerID"]
                )
            )
        )
        replace_server(r, "--grace-period=1")  # this one is not measured
    r.check()
    whole, own = zip(*measured)
    load = pathlib.Path("/proc/loadavg").read_text().split()[0]
    return (
        f"{spread(whole)}; from the new process's first answer on {spread(own)}; load {load} on "
        f"{os.cpu_count()} cores"
    )


def delete_server_pod(r):
    seconds = [replace_server(r) for _ in range(3)]
    return spread(seconds)


def replace_server(r, *arguments) -> float:
    uid, begin = r.server()["metadata"]["uid"], time.monotonic()
    r.cluster.kubectl(
        "delete", "pod", "remesh-server-0", "--namespace", SPACE, "--wait=false", *arguments
    )
    wait_for(
        "another pod of the server with all workers",
        lambda: r.server()["metadata"]["uid"] != uid and r.attached(),
    )
    return time.monotonic() - begin


def delete_worker_pod(r):
    """The worker of the last node, time after time. Its trainer's pod goes on: it has mounted the
    socket's folder."""
    host, seconds = r.hosts[-1], []
    for _ in range(REPEATS):
        pod = r.workers()[host]
        begin = time.monotonic()
        r.cluster.kubectl(
            "delete", "pod", pod["metadata"]["name"], "--namespace", SPACE, "--wait=false"
        )
        wait_for(
            "another worker",
            lambda: host in r.workers()
            and r.workers()[host]["metadata"]["uid"] != pod["metadata"]["uid"],
        )
        r.wait_attached()
        seconds.append(time.monotonic() - begin)
    r.check()  # over the socket in the same trainer pods: not stale
    return spread(seconds) + "; trainers' sockets not stale"
