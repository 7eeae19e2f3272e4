# SPDX-License-Identifier: Apache-2.0
"""The details of a refused call: its code, its reason and its metadata."""
from typing import Optional

import grpc
from google.rpc import error_details_pb2, status_pb2

_DETAILS_KEY = "grpc-status-details-bin"


def error_info(error: grpc.RpcError) -> Optional[error_details_pb2.ErrorInfo]:
    """The ErrorInfo that a remesh handler attached, or None when gRPC itself refused the call."""
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY:
            return info_of(status_pb2.Status.FromString(value))
    return None


def info_of(status: status_pb2.Status) -> Optional[error_details_pb2.ErrorInfo]:
    """The ErrorInfo among a status's details, or None."""
    for detail in status.details:
        info = error_details_pb2.ErrorInfo()
        if detail.Is(info.DESCRIPTOR) and detail.Unpack(info):
            return info
    return None


def describe(error: grpc.RpcError) -> str:
    """One line: "FAILED_PRECONDITION (STATE_NOT_READY): ... [state=jobs/a/states/b]"."""
    hint = tls_hint(error)
    return _line(error.code().name, error.details(), error_info(error)) + (f" ({hint})" if hint else "")


def tls_hint(error: grpc.RpcError) -> str:
    """In plain words what gRPC says of a server that speaks TLS while we do not, or the other way round; "" for all else. A server that
    closes a new connection at once may have another reason for it, which is then named too."""
    words = error.details() or ""
    if error.code() != grpc.StatusCode.UNAVAILABLE or error_info(error) is not None:
        return ""
    if "WRONG_VERSION_NUMBER" in words or "wrong version number" in words:
        return "the server does not speak TLS: leave out REMESH_TLS_CA, REMESH_TLS_CERT and REMESH_TLS_KEY, or tls="
    if "failed to connect" in words and any(each in words for each in ("Socket closed", "Connection reset", "Broken pipe")):
        return ("the server closed the connection at once: if it speaks TLS, set REMESH_TLS_CA, REMESH_TLS_CERT and REMESH_TLS_KEY, or tls=, "
                "to a certificate that it accepts; else it stops, or takes no more connections from here")
    return ""


def add_tls_hint(error: grpc.RpcError) -> None:
    """The hint as a note, which a traceback shows (from Python 3.11 on)."""
    hint = tls_hint(error)
    if hint and hasattr(error, "add_note"):
        error.add_note(hint)


def describe_status(status: status_pb2.Status) -> str:
    """As describe(), for a status inside a message, such as Execution.error."""
    name = next((code.name for code in grpc.StatusCode if code.value[0] == status.code), str(status.code))
    return _line(name, status.message, info_of(status))


def _line(code, message, info):
    if info is None:
        return f"{code}: {message}"
    values = "".join(f" {key}={value}" for key, value in sorted(info.metadata.items()))
    return f"{code} ({info.reason}): {message}" + (f" [{values.strip()}]" if values else "")
