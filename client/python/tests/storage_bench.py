# SPDX-License-Identifier: Apache-2.0
"""Prints how long the layout of a large job takes, and its bytes: no test, run by hand."""

import time

import storage_test
from remesh import storage


def main():
    for devices in (8, 1):
        arrays, hosts, host_of = storage_test._large_job(devices)
        for name, make in (
            ("stored, 2 replicas", lambda: storage.spec(storage.stored(arrays, hosts, host_of, 2))),
            ("wanted", lambda: storage.targets(storage.wanted(arrays, hosts, host_of))),
        ):
            start = time.perf_counter()
            message = make()
            print(
                f"{len(arrays)} arrays, 4096 trainer devices, {devices} worker devices a host: "
                f"{name}: {time.perf_counter() - start:.2f} s, {message.ByteSize()} bytes",
                flush=True,
            )


if __name__ == "__main__":
    main()
