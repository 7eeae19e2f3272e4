# SPDX-License-Identifier: Apache-2.0
"""What a refused call says besides its code, and all of that in one line of text."""

from typing import Iterable, List, Mapping, Optional

import grpc
from google.rpc import error_details_pb2, status_pb2

_DETAILS_KEY = "grpc-status-details-bin"
MOST_FURTHER = 20  # problems besides the first, in an error


def error_info(error: grpc.RpcError) -> Optional[error_details_pb2.ErrorInfo]:
    """The ErrorInfo that a remesh handler attached, or None when gRPC itself refused the call."""
    return info_of(details_of(error))


def details_of(error: grpc.RpcError) -> status_pb2.Status:
    """The status that a remesh handler attached; an empty one when gRPC itself refused the call."""
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY:
            return status_pb2.Status.FromString(value)
    return status_pb2.Status()


def info_of(status: status_pb2.Status) -> Optional[error_details_pb2.ErrorInfo]:
    """The ErrorInfo among a status's details, or None."""
    for detail in status.details:
        info = error_details_pb2.ErrorInfo()
        if detail.Is(info.DESCRIPTOR) and detail.Unpack(info):
            return info
    return None


def further_of(status: status_pb2.Status) -> List[str]:
    """What else a status refuses besides what its message says: "FIELD: what is wrong with it"."""
    further: List[str] = []
    for detail in status.details:
        bad = error_details_pb2.BadRequest()
        if detail.Is(bad.DESCRIPTOR) and detail.Unpack(bad):
            further.extend(f"{one.field}: {one.description}" for one in bad.field_violations)
    return further[:MOST_FURTHER]


def describe(error: grpc.RpcError) -> str:
    """One line: "FAILED_PRECONDITION (STATE_NOT_READY): ... [state=jobs/a/states/b]"."""
    info, hint = error_info(error), tls_hint(error)
    line = line_of(
        error.code().name,
        error.details() or "",
        info.reason if info else "",
        info.metadata if info else {},
        further_of(details_of(error)),
    )
    return line + (f" ({hint})" if hint else "")


def tls_hint(error: grpc.RpcError) -> str:
    """In plain words what gRPC says of a server that speaks TLS while we do not, or the other way
    round; "" for all else. A server that closes a new connection at once may have another reason
    for it, which is then named too."""
    words = error.details() or ""
    if error.code() != grpc.StatusCode.UNAVAILABLE or error_info(error) is not None:
        return ""
    if "WRONG_VERSION_NUMBER" in words or "wrong version number" in words:
        return (
            "the server does not speak TLS: leave out REMESH_TLS_CA, REMESH_TLS_CERT and "
            "REMESH_TLS_KEY, or tls="
        )
    if "failed to connect" in words and any(
        each in words for each in ("Socket closed", "Connection reset", "Broken pipe")
    ):
        return (
            "the server closed the connection at once: if it speaks TLS, set REMESH_TLS_CA, "
            "REMESH_TLS_CERT and REMESH_TLS_KEY, or tls=, to a certificate that it accepts; else "
            "it stops, or takes no more connections from here"
        )
    return ""


def add_tls_hint(error: grpc.RpcError) -> None:
    """The hint as a note, which a traceback shows (from Python 3.11 on)."""
    hint = tls_hint(error)
    if hint and hasattr(error, "add_note"):
        error.add_note(hint)


def describe_status(status: status_pb2.Status) -> str:
    """As describe(), for a status inside a message, such as Execution.error."""
    info = info_of(status)
    return line_of(
        code_name(status.code),
        status.message,
        info.reason if info else "",
        info.metadata if info else {},
        further_of(status),
    )


def code_name(number: int) -> str:
    return next((code.name for code in grpc.StatusCode if code.value[0] == number), str(number))


def line_of(
    code: str, message: str, reason: str, metadata: Mapping[str, str], further: Iterable[str] = ()
) -> str:
    what = f"{code} ({reason})" if reason and reason != code else code
    values = " ".join(f"{key}={value}" for key, value in sorted(metadata.items()))
    said = "; also ".join([f"{what}: {message}", *further])
    return " ".join(said.split("\n")) + (f" [{values}]" if values else "")
