# SPDX-License-Identifier: Apache-2.0
"""A process of leaving_test.py: RANK COUNT PORT HOW. Asks JAX's notice at the steps of a job that
was restored at step 1000, and prints what it said. Process 1 is asked to leave, before the first
step (HOW early) or at a later one (resize)."""

import json
import signal
import sys
import time

import jax

import notice_laws
from remesh.jax.notice import JaxNotice
from remesh.jax_group import JaxGroup
from remesh.job import Reason

START = 1000


def main(rank, count, port, how):
    """See the module's comment."""
    jax.distributed.initialize(f"127.0.0.1:{port}", count, rank)
    notice = JaxNotice(JaxGroup())
    if how == "early" and rank == 1:
        signal.raise_signal(signal.SIGTERM)
    if how == "early":
        time.sleep(2.5)  # JAX looks once a second; a later look is lawful, too

    def before(step):
        time.sleep(0.05)
        if rank != 1 or step != {"early": START, "resize": START + 3}[how]:
            return None
        if how == "early":
            return Reason.TOLD_TO_GO
        notice.tell(Reason.RESIZED)
        return Reason.RESIZED

    record = notice_laws.run(notice, range(START, START + 2000), before)
    print(json.dumps([list(record.answers.items()), list(record.told.items())]), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), sys.argv[4])
