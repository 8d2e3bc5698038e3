"""Errors of a server or of the connection to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from lorsa.errors import LorsaError


class RpcError(LorsaError):
    """What a call came back with. Its text says what went wrong and what to do about it.

    `code` is the canonical name ("NOT_FOUND"), `reason` the server's word for programs
    ("STALE_ATTEMPT"; empty if no server answered), `metadata` what the text speaks of, `fields` the
    wrong fields of the request with what is wrong with each, `request_id` what names the call in
    the server's log (empty if no server answered).
    """

    def __init__(
        self,
        message: str,
        code: str,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.fields = dict(fields or {})
        self.request_id = request_id

    @property
    def is_transient(self) -> bool:
        """Whether the connection broke, or the server said that it will be back."""
        return False


class NotFoundError(RpcError):
    """There is no such thing on the server."""


class AlreadyExistsError(RpcError):
    """The id is taken, or the folder holds something else."""


class InvalidArgumentError(RpcError):
    """The request is wrong; see `fields`."""


class FailedPreconditionError(RpcError):
    """The thing is in a state that does not allow this."""


class PermissionDeniedError(RpcError):
    """The server does not allow this to this caller."""


class UnauthenticatedError(RpcError):
    """The token is missing or not known."""


class ResourceExhaustedError(RpcError):
    """A limit or a disk is full."""


class DataLossError(RpcError):
    """Bytes are damaged, or a server leaves things out."""


class AbortedError(RpcError):
    """Something changed meanwhile."""


class UnavailableError(RpcError):
    """The server cannot be reached, or is about to stop."""

    @property
    def is_transient(self) -> bool:
        return True


_CLASSES: dict[str, type[RpcError]] = {
    "NOT_FOUND": NotFoundError,
    "ALREADY_EXISTS": AlreadyExistsError,
    "INVALID_ARGUMENT": InvalidArgumentError,
    "FAILED_PRECONDITION": FailedPreconditionError,
    "PERMISSION_DENIED": PermissionDeniedError,
    "UNAUTHENTICATED": UnauthenticatedError,
    "RESOURCE_EXHAUSTED": ResourceExhaustedError,
    "DATA_LOSS": DataLossError,
    "ABORTED": AbortedError,
    "UNAVAILABLE": UnavailableError,
}
_FAULTS_OF_SERVER = ("INTERNAL", "UNKNOWN", "DATA_LOSS")
# The last one is what grpc.aio says of a message that it could not send.
_BROKEN_CONNECTION = ("RST_STREAM", "Stream removed", "Internal error from Core")
_DETAILS = "grpc-status-details-bin"


def from_grpc(error: Any, server: str) -> RpcError:
    """The typed error of a failed call (grpc.RpcError or grpc.aio.AioRpcError)."""
    info, bad_request, request_id = _details(error)
    fields = {each.field: each.description for each in bad_request.field_violations}
    message, code = str(error.details() or ""), str(error.code().name)
    if not info.reason and _is_broken_connection(error.code(), message):
        return UnavailableError(
            f"The connection to {server} broke ({message}): is lorsad running there?", "UNAVAILABLE"
        )
    kind = _CLASSES.get(code, RpcError)
    text = _sentence(message, fields)
    if code in _FAULTS_OF_SERVER and request_id:
        text += f"\n  request {request_id} in the server's log"
    return kind(text, code, info.reason, dict(info.metadata), fields, request_id)


def closed_early(what: str) -> UnavailableError:
    """The error for a stream that its server ended before its last message."""
    return UnavailableError(f"The server closed {what} before its end.", "UNAVAILABLE")


def _details(
    error: Any,
) -> tuple[error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, str]:
    info, bad_request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    request = error_details_pb2.RequestInfo()
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS:
            for detail in status_pb2.Status.FromString(value).details:
                for message in (info, bad_request, request):
                    detail.Unpack(message)  # if it is one
    return info, bad_request, request.request_id


def _is_broken_connection(code: grpc.StatusCode, message: str) -> bool:
    """gRPC reports some broken connections with codes that servers use as well."""
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return True
    return code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN) and any(
        text in message for text in _BROKEN_CONNECTION
    )


def _sentence(message: str, fields: Mapping[str, str]) -> str:
    """The message with its violations one a line, and nothing said twice."""
    if not fields or (len(fields) == 1 and next(iter(fields.values())) in message):
        return message
    if next(iter(fields.values())) in message:
        message = f"{len(fields)} fields are wrong:"
    return message + "".join(f"\n  {field}: {what}" for field, what in fields.items())
