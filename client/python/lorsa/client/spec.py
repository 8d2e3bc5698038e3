"""Training specifications as people write them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from google.protobuf import json_format, text_format

from lorsa.errors import LorsaError
from lorsa.files import read_bounded
from lorsa.v1 import job_service_pb2
from lorsa.v1.training_spec_pb2 import TrainingSpec

Spec = Mapping[str, Any] | TrainingSpec | str | PathLike[str]
_MAX_SPEC_BYTES = 1 << 20


def parse_spec(spec: Spec) -> TrainingSpec:
    """A specification from a dict, a message, or the path of a textproto or JSON file.

    LorsaError names what is wrong with it: an unknown field, a value of another type.
    """
    if isinstance(spec, TrainingSpec):
        return spec
    if isinstance(spec, Mapping):
        return _parsed("The specification", lambda to: json_format.ParseDict(dict(spec), to))
    path = Path(spec)
    text = read_bounded(path, _MAX_SPEC_BYTES).decode(errors="replace")
    if path.suffix == ".json" or text.lstrip().startswith("{"):
        return _parsed(str(path), lambda to: json_format.Parse(text, to))
    return _parsed(str(path), lambda to: text_format.Parse(text, to))


def _parsed(where: str, parse: Any) -> TrainingSpec:
    result = TrainingSpec()
    try:
        parse(result)
    except (json_format.ParseError, text_format.ParseError) as error:
        raise LorsaError(f"{where} is not a training specification: {error}") from error
    return result


def create_job_request(
    spec: Spec, job_id: str | None, validate_only: bool
) -> job_service_pb2.CreateJobRequest:
    """With a request_id of its own, so that gRPC may repeat it when the connection breaks."""
    return job_service_pb2.CreateJobRequest(
        job_id=job_id or f"job-{uuid.uuid4().hex[:8]}",
        spec=parse_spec(spec),
        request_id=uuid.uuid4().hex,
        validate_only=validate_only,
    )
