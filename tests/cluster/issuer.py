# SPDX-License-Identifier: Apache-2.0
"""Plays cert-manager: makes for each Certificate object of a namespace the Secret that it asks for,
by the openssl command."""

import base64
import pathlib
from typing import List

from machine import run


class Authority:
    """A CA in a folder of its own."""

    def __init__(self, folder: pathlib.Path, name: str):
        folder.mkdir(parents=True)
        self._folder = folder
        _request(
            "-days",
            "1",
            "-keyout",
            folder / "ca.key",
            "-out",
            folder / "ca.crt",
            "-subj",
            f"/CN={name}",
        )

    def certificate(self) -> str:
        return (self._folder / "ca.crt").read_text()

    def issue(self, names: List[str]) -> dict:
        """tls.crt and tls.key for subject alternative names as openssl writes them."""
        certificate, key = self._folder / "tls.crt", self._folder / "tls.key"
        _request(
            "-days",
            "1",
            "-CA",
            self._folder / "ca.crt",
            "-CAkey",
            self._folder / "ca.key",
            "-keyout",
            key,
            "-out",
            certificate,
            "-subj",
            "/CN=x",
            "-addext",
            f"subjectAltName={','.join(names)}",
            "-addext",
            "basicConstraints=CA:FALSE",
        )
        return {"tls.crt": certificate.read_text(), "tls.key": key.read_text()}


def serve(cluster, space: str, signer: Authority) -> dict:
    """Issues again for all of them, and returns Secret's name -> its files."""
    made = {}
    for certificate in cluster.get("certificates.cert-manager.io", "--namespace", space)["items"]:
        spec = certificate["spec"]
        names = [f"DNS:{name}" for name in spec.get("dnsNames", [])] + [
            f"URI:{uri}" for uri in spec.get("uris", [])
        ]
        made[spec["secretName"]] = {**signer.issue(names), "ca.crt": signer.certificate()}
    cluster.apply(
        *(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "kubernetes.io/tls",
                "metadata": {"name": name, "namespace": space},
                "data": {
                    file: base64.b64encode(text.encode()).decode() for file, text in files.items()
                },
            }
            for name, files in made.items()
        )
    )
    return made


def _request(*arguments) -> None:
    run(
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        *arguments,
    )
