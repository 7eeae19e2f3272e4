# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made by the openssl command, and folders of them that change as a mounted
Secret does: all files at once."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from remesh.connection import Tls


class Authority:
    """A CA in a folder of its own."""

    def __init__(self, name: str):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="remesh-ca-"))
        self.certificate = self.folder / "ca.crt"
        self._key = self.folder / "ca.key"
        _openssl("-keyout", self._key, "-out", self.certificate, "-subj", f"/CN={name}")

    def issue(self, path: str, certificate: pathlib.Path, key: pathlib.Path) -> None:
        """For spiffe://remesh.local/`path` at 127.0.0.1."""
        _openssl(
            "-CA",
            self.certificate,
            "-CAkey",
            self._key,
            "-keyout",
            key,
            "-out",
            certificate,
            "-subj",
            "/CN=somebody",
            "-addext",
            f"subjectAltName=URI:spiffe://remesh.local/{path},IP:127.0.0.1",
            "-addext",
            "basicConstraints=CA:FALSE",
        )

    def close(self) -> None:
        shutil.rmtree(self.folder)


class Folder:
    """What one process reads: ca.crt, tls.crt and tls.key behind a link that is replaced."""

    def __init__(self, root: pathlib.Path, path: str):
        self._root, self._path, self._version = root / path.replace("/", "-"), path, 0
        self._root.mkdir(parents=True)
        self.now = self._root / "now"

    def write(self, signer: Authority, *trusted: Authority) -> "Folder":
        folder = self.begin()
        (folder / "ca.crt").write_text(
            "".join(authority.certificate.read_text() for authority in trusted or (signer,))
        )
        signer.issue(self._path, folder / "tls.crt", folder / "tls.key")
        self.flip(folder)
        return self

    def trust(self, *trusted: Authority) -> None:
        """Other CAs, the same certificate."""
        folder = self.begin()
        for name in ("tls.crt", "tls.key"):
            shutil.copy(self.now / name, folder / name)
        (folder / "ca.crt").write_text(
            "".join(authority.certificate.read_text() for authority in trusted)
        )
        self.flip(folder)

    def begin(self) -> pathlib.Path:
        self._version += 1
        folder = self._root / str(self._version)
        folder.mkdir()
        return folder

    def flip(self, folder: pathlib.Path) -> None:
        link = self._root / "next"
        link.symlink_to(folder)
        os.replace(link, self.now)

    def tls(self) -> Tls:
        return Tls(
            ca=str(self.now / "ca.crt"),
            certificate=str(self.now / "tls.crt"),
            key=str(self.now / "tls.key"),
        )


def _openssl(*arguments) -> None:
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "1",
            *map(str, arguments),
        ],
        check=True,
        capture_output=True,
    )
