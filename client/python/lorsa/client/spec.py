"""Specifications of jobs and the requests that carry them, as people write them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf import json_format, text_format
from google.protobuf.field_mask_pb2 import FieldMask

from lorsa.errors import LorsaError
from lorsa.files import read_bounded
from lorsa.v1 import job_service_pb2
from lorsa.v1.job_pb2 import Job, JobPolicy, JobState
from lorsa.v1.job_spec_pb2 import JobSpec, ProgramSpec
from lorsa.v1.sweep_pb2 import SweepParameter
from lorsa.v1.training_spec_pb2 import TrainingSpec

Spec = Mapping[str, Any] | TrainingSpec | str | PathLike[str]
AnySpec = Spec | JobSpec
Policy = Mapping[str, Any] | JobPolicy | None  # {"priority": 10, "labels": {…}, "ttl": "86400s"}
Message = TypeVar("Message", TrainingSpec, JobPolicy)
_MAX_SPEC_BYTES = 1 << 20


def parse_spec(spec: Spec) -> TrainingSpec:
    """A specification from a dict, a message, or the path of a textproto or JSON file.

    LorsaError names what is wrong with it: an unknown field, a value of another type.
    """
    if isinstance(spec, TrainingSpec):
        return spec
    if isinstance(spec, Mapping):
        return _from_dict("The specification", spec, TrainingSpec())
    path = Path(spec)
    text = read_bounded(path, _MAX_SPEC_BYTES).decode(errors="replace")
    parser = text_format
    if path.suffix == ".json" or text.lstrip().startswith("{"):
        parser = json_format
    return _parsed(str(path), lambda to: parser.Parse(text, to), TrainingSpec())


def parse_policy(policy: Policy) -> JobPolicy | None:
    """How a job is queued and kept, from a dict or a message; LorsaError as of parse_spec."""
    if policy is None or isinstance(policy, JobPolicy):
        return policy
    return _from_dict("The policy", policy, JobPolicy())


def program_spec(
    kind: str,
    parameters: Mapping[str, Any] | None,
    activation_set: str | None = None,
    **fields: Any,
) -> JobSpec:
    """Of a job whose kind the server's configuration names. `fields`: as in ProgramSpec.

    LorsaError if the parameters are not what JSON can hold.
    """
    program = ProgramSpec(kind=kind, activation_set=activation_set or "", **fields)
    try:
        program.parameters.update(dict(parameters or {}))
    except ValueError as error:
        raise LorsaError(f"The parameters are no JSON object: {error}") from error
    return JobSpec(program=program)


def create_job_request(
    spec: AnySpec, job_id: str | None, *, validate_only: bool = False, policy: Policy = None
) -> job_service_pb2.CreateJobRequest:
    """With a request_id of its own, so that gRPC may repeat it when the connection breaks."""
    return job_service_pb2.CreateJobRequest(
        job_id=_id(job_id, "job"),
        spec=spec if isinstance(spec, JobSpec) else JobSpec(training=parse_spec(spec)),
        request_id=uuid.uuid4().hex,
        validate_only=validate_only,
        policy=parse_policy(policy),
    )


def update_job_request(name: str, policy: Mapping[str, Any]) -> job_service_pb2.UpdateJobRequest:
    """`policy`: the fields to change; None takes a setting away."""
    given = {field: value for field, value in policy.items() if value is not None}
    return job_service_pb2.UpdateJobRequest(
        job=Job(name=name, policy=parse_policy(given)),
        update_mask=FieldMask(paths=[f"policy.{field}" for field in policy]),
    )


def fork_job_request(
    checkpoint: str, changes: Spec, job_id: str | None, policy: Policy
) -> job_service_pb2.ForkJobRequest:
    """`checkpoint`: its name."""
    return job_service_pb2.ForkJobRequest(
        checkpoint=checkpoint,
        job_id=_id(job_id, "job"),
        changes=parse_spec(changes),
        request_id=uuid.uuid4().hex,
        policy=parse_policy(policy),
    )


def create_sweep_request(
    spec: Spec, parameters: Mapping[str, Sequence[Any]], sweep_id: str | None, policy: Policy
) -> job_service_pb2.CreateSweepRequest:
    """`parameters`: the values that each field takes."""
    return job_service_pb2.CreateSweepRequest(
        sweep_id=_id(sweep_id, "sweep"),
        spec=parse_spec(spec),
        parameters=[
            SweepParameter(field=field, values=[_word(value) for value in values])
            for field, values in parameters.items()
        ],
        policy=parse_policy(policy),
        request_id=uuid.uuid4().hex,
    )


def list_jobs_request(
    state: str | None, labels: Mapping[str, str] | None, sweep: str | None
) -> job_service_pb2.ListJobsRequest:
    """`state`: such as "RUNNING"; ValueError if there is none of that name."""
    return job_service_pb2.ListJobsRequest(
        state=None if state is None else JobState.Value(f"JOB_STATE_{state}"),
        labels=labels,
        sweep=None if sweep is None else f"sweeps/{sweep}",
    )


def _id(chosen: str | None, kind: str) -> str:
    return chosen or f"{kind}-{uuid.uuid4().hex[:8]}"


def _word(value: Any) -> str:
    """As Protobuf's text format has it, strings without quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _from_dict(where: str, value: Mapping[str, Any], to: Message) -> Message:
    return _parsed(where, lambda to: json_format.ParseDict(dict(value), to), to)


def _parsed(where: str, parse: Any, result: Message) -> Message:
    try:
        parse(result)
    except (json_format.ParseError, text_format.ParseError) as error:
        kind = "training specification" if isinstance(result, TrainingSpec) else "job policy"
        raise LorsaError(f"{where} is not a {kind}: {error}") from error
    return result
