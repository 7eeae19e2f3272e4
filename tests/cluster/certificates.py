# SPDX-License-Identifier: Apache-2.0
"""The step that turns TLS on, and changes the authority under load."""

import threading

import issuer
from machine import wait_for
from release import SPACE, metrics
from restarts import replace_server
from words import Skip, words_of


def tls(r):
    """cert-manager's mode with an issuer of our own, then another CA under load, as
    docs/security.md says."""
    if r.cluster.kubectl("get", "crd", "certificates.cert-manager.io", check=False).returncode != 0:
        raise Skip("the API server does not know cert-manager's Certificates")
    authorities = [
        issuer.Authority(r.cluster.root / f"ca-{name}", name) for name in ("first", "second")
    ]
    settings = [
        "--set",
        "tls.mode=certManager,tls.certManager.issuerRef.name=ours,tls.caConfigMap=cas",
    ]
    r.bundle(*authorities[:1])
    r.upgrade(*settings, wait=False)
    wait_for(
        "the Certificates",
        lambda: len(r.cluster.get("certificates.cert-manager.io", "--namespace", SPACE)["items"])
        == 4,
    )
    r.write_admin(issuer.serve(r.cluster, SPACE, authorities[0])["remesh-admin-tls"])
    r.upgrade(*settings)
    r.use_tls()
    r.wait_attached()
    r.cluster.helm("test", "remesh", "--namespace", SPACE, "--logs")
    before = r.generation()
    r.reshard("rows" if before % 2 == 0 else "columns")
    r.check()
    refused = r.cluster.kubectl(
        "exec",
        "--namespace",
        SPACE,
        f"trainer-{r.hosts[0]}",
        "--",
        "remeshctl",
        "states",
        "list",
        "--timeout",
        "5",
        check=False,
    )
    assert refused.returncode == 1, refused.stdout
    return (
        "attached, a move, helm test; without a certificate: "
        + words_of(refused)
        + "; "
        + _rotate(r, authorities)
    )


def _rotate(r, authorities) -> str:
    calls, failed, over = [0], [], threading.Event()

    def load():
        while not over.is_set():
            done = r.remeshctl(r.hosts[0], "states", "list", check=False)
            calls[0] += 1
            if done.returncode != 0:
                failed.append(done.stderr)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        r.bundle(*authorities)
        _reloaded(r, 1)
        r.write_admin(issuer.serve(r.cluster, SPACE, authorities[1])["remesh-admin-tls"])
        _reloaded(r, 2)
        r.bundle(authorities[1])
        _reloaded(r, 3)
    finally:
        over.set()
        thread.join()
    assert not failed, failed[0]
    replace_server(r)
    r.check()
    return (
        f"another CA under {calls[0]} calls, each on a connection of its own: {len(failed)} failed"
    )


def _reloaded(r, count: int) -> None:
    series = 'remesh_tls_reloads_total{outcome="reloaded"}'
    wait_for(
        f"{count} reloads everywhere",
        lambda: r.server_metrics()[series] >= count
        and all(metrics(node.address, 7081)[series] >= count for node in r.cluster.nodes),
        seconds=120,
        pause=0.5,
    )
