# SPDX-License-Identifier: Apache-2.0
"""Connections to a remesh server: in plain text, or by TLS with certificates that may be replaced
while the process runs."""

import dataclasses
import os
import pathlib
import re
import threading
from typing import Any, Dict, Optional, Sequence, Tuple

import grpc

_VARIABLES = {"ca": "REMESH_TLS_CA", "certificate": "REMESH_TLS_CERT", "key": "REMESH_TLS_KEY"}
_KEYS = {"ca": "tls_ca", "certificate": "tls_cert", "key": "tls_key"}


@dataclasses.dataclass(frozen=True)
class Tls:
    """Paths of PEM files: the server's CAs, our own certificate, its key. server_name: the name in
    the server's certificate; "": its host."""

    ca: str
    certificate: str
    key: str
    server_name: str = ""

    @staticmethod
    def from_environment() -> Optional["Tls"]:
        """From REMESH_TLS_CA, REMESH_TLS_CERT, REMESH_TLS_KEY (all or none) and
        REMESH_TLS_SERVER_NAME. None: no TLS."""
        return Tls.of({})

    @staticmethod
    def of(context: Dict[str, str]) -> Optional["Tls"]:
        """As from_environment(), with the values of a context (contexts.py) for variables that are
        not set."""
        files = {
            field: os.environ.get(variable, "") or context.get(_KEYS[field], "")
            for field, variable in _VARIABLES.items()
        }
        if not any(files.values()):
            return None
        for field, variable in _VARIABLES.items():
            if not files[field]:
                raise ValueError(
                    f"{variable}: value '' must be set, as {', '.join(_VARIABLES.values())} must "
                    "be all or none"
                )
        return Tls(
            **files,
            server_name=os.environ.get("REMESH_TLS_SERVER_NAME", "")
            or context.get("tls_server_name", ""),
        )

    def read(self) -> Tuple[bytes, bytes, bytes]:
        """Reads the files. Raises OSError, or ValueError for a file that is not PEM."""
        contents = []
        for field, mark in (
            ("ca", b"CERTIFICATE-----"),
            ("certificate", b"CERTIFICATE-----"),
            ("key", b"PRIVATE KEY-----"),
        ):
            path = getattr(self, field)
            contents.append(pathlib.Path(path).read_bytes())
            if mark not in contents[-1]:
                raise ValueError(
                    f"tls.{field}: value {path!r} must hold PEM with {mark.decode().rstrip('-')}"
                )
        return contents[0], contents[1], contents[2]


def check_address(server: str) -> None:
    """Refuses a URL and an address without a port: gRPC would look them up as names, and report
    that only when a call times out."""
    if not re.fullmatch(r"(unix|dns|ipv4|ipv6|xds):.+|[^/]+:\d+", server):
        raise ValueError(f"server: value {server!r} must be HOST:PORT, as in 10.0.0.1:7070")


class ServerConnection:
    """The channel to a server, replaced when its certificate files have changed, because gRPC for
    Python does not read them again. Calls on an older channel go on there. Thread-safe."""

    def __init__(
        self, address: str, options: Sequence[Tuple[str, Any]] = (), tls: Optional[Tls] = None
    ):
        self._address, self._options, self._tls = address, tuple(options), tls
        self._lock = threading.Lock()
        self._contents: Optional[Tuple[bytes, bytes, bytes]] = tls.read() if tls else None
        self._channel = self._make()

    def channel(self) -> grpc.Channel:
        with self._lock:
            contents = self._read()
            if contents != self._contents:
                self._contents = contents
                self._channel = self._make()
            return self._channel

    def close(self) -> None:
        self._channel.close()

    def _read(self):
        if self._tls is None:
            return None
        try:
            contents = self._tls.read()
            return (
                contents if contents == self._tls.read() else self._contents
            )  # not some old, some new
        except (OSError, ValueError):  # in the middle of a change: what there was stays in force
            return self._contents

    def _make(self) -> grpc.Channel:
        if self._tls is None:
            return grpc.insecure_channel(self._address, options=self._options)
        assert self._contents is not None
        ca, certificate, key = self._contents
        name = (
            [("grpc.ssl_target_name_override", self._tls.server_name)]
            if self._tls.server_name
            else []
        )
        return grpc.secure_channel(
            self._address,
            grpc.ssl_channel_credentials(ca, key, certificate),
            options=(*self._options, *name),
        )
