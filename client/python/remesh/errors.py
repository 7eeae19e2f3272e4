# SPDX-License-Identifier: Apache-2.0
"""What a refused call says: its code, its reason and the values it names."""
from typing import Optional

import grpc
from google.rpc import error_details_pb2, status_pb2

_DETAILS_KEY = "grpc-status-details-bin"


def error_info(error: grpc.RpcError) -> Optional[error_details_pb2.ErrorInfo]:
    """The ErrorInfo that a handler of remesh attached, or None when gRPC itself refused the call."""
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
    return _line(error.code().name, error.details(), error_info(error))


def describe_status(status: status_pb2.Status) -> str:
    """The same for a status inside a message, such as Execution.error."""
    name = next((code.name for code in grpc.StatusCode if code.value[0] == status.code), str(status.code))
    return _line(name, status.message, info_of(status))


def _line(code, message, info):
    if info is None:
        return f"{code}: {message}"
    values = "".join(f" {key}={value}" for key, value in sorted(info.metadata.items()))
    return f"{code} ({info.reason}): {message}" + (f" [{values.strip()}]" if values else "")
