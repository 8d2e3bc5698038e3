"""A folder ready for the Hugging Face hub: the checkpoint without its training state, a model card
written from the job and its metrics, the curve, and checksums of all of it.

`lorsa.Lorsa.load` reads the folder: manifest.json is the checkpoint's own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lorsa
from lorsa.checkpoint import COUNTS, MANIFEST, WEIGHTS, load_tensors
from lorsa.curve import svg_curve
from lorsa.errors import LorsaError
from lorsa.files import new_folder, read_bounded, sha256_of
from lorsa.lorsa_config import FILE_NAME as CONFIG
from lorsa.lorsa_config import LorsaConfig
from lorsa.strict_json import parse_object

CARD = "README.md"
CURVE = "fvu.svg"
CHECKSUMS = "SHA256SUMS"
_MAX_JOB_BYTES = 1 << 20
_MAX_METRICS_BYTES = 1 << 28
_SHOWN = ("fvu", "explained_variance", "cosine", "mse", "l0", "dead_fraction", "dense_fraction")


@dataclass(frozen=True)
class TrainingRecord:
    """Where a checkpoint is from."""

    job: Mapping[str, Any]  # as `lorsa --json job show` prints it
    evaluations: Sequence[Mapping[str, Any]]  # as `lorsa --json job metrics` prints them

    @staticmethod
    def read(job: Path, metrics: Path) -> TrainingRecord:
        """Reads what the two commands printed; LorsaError naming the file that is wrong."""
        lines = read_bounded(metrics, _MAX_METRICS_BYTES).splitlines()
        evaluations = [parse_object(line, str(metrics)) for line in lines if line.strip()]
        if not evaluations or any(not isinstance(each.get("values"), dict) for each in evaluations):
            raise LorsaError(f"{metrics} holds no evaluations: lorsa --json job metrics JOB.")
        record = parse_object(read_bounded(job, _MAX_JOB_BYTES), str(job))
        if "name" not in record or "training" not in record.get("resolved_spec", {}):
            raise LorsaError(f"{job} holds no training job: lorsa --json job show JOB.")
        return TrainingRecord(record, sorted(evaluations, key=lambda each: int(each["step"])))

    def up_to(self, step: int) -> TrainingRecord:
        """The record of the run until `step`; LorsaError if it was not evaluated there."""
        until = [each for each in self.evaluations if int(each["step"]) <= step]
        if not until or int(until[-1]["step"]) != step:
            raise LorsaError(f"There are no metrics of step {step}, the checkpoint's.")
        return TrainingRecord(self.job, until)


def export(checkpoint: Path, out: Path, record: TrainingRecord, license_id: str) -> None:
    """Writes the folder. `license_id`: as the hub names licences, e.g. apache-2.0."""
    config, _ = load_tensors(checkpoint)  # verified before it is copied
    counts = parse_object(read_bounded(checkpoint / COUNTS, _MAX_JOB_BYTES), COUNTS)
    record = record.up_to(int(counts["step"]))
    with new_folder(out) as folder:
        for name in (CONFIG, WEIGHTS, MANIFEST):
            shutil.copyfile(checkpoint / name, folder / name)
        (folder / CURVE).write_text(svg_curve("FVU", _points(record.evaluations)))
        (folder / CARD).write_text(_card(config, record, license_id, sha256_of(folder / WEIGHTS)))
        names = sorted(path.name for path in folder.iterdir())
        sums = "".join(f"{sha256_of(folder / name)}  {name}\n" for name in names)
        (folder / CHECKSUMS).write_text(sums)


def _card(config: LorsaConfig, record: TrainingRecord, license_id: str, sha256: str) -> str:
    last = record.evaluations[-1]
    layer = f"attention layer {config.layer} of {config.model_name or 'an unnamed model'}"
    heads = (
        f"{config.n_ov_heads} rank-1 heads with {config.n_qk_heads} QK heads, {config.top_k} "
        "of them active per token"
    )
    return f"""\
---
license: {license_id}
library_name: lorsa
tags: [lorsa, sparse-attention, interpretability]
---

# Lorsa of {layer}

[Low-rank sparse attention](https://arxiv.org/abs/2504.20938): {heads}, trained to return what
{layer} (revision {config.model_revision or "unknown"}) returns.
FVU on held-out text: {_number(last, "fvu")}.

## How to load

```python
import lorsa  # pip install 'lorsa[torch]'

model = lorsa.Lorsa.load("FOLDER")
reconstruction = model(x)  # [sequences, positions, {config.d_model}], {config.hook_convention}
```

`sha256sum -c {CHECKSUMS}` checks the files. `lorsa-convert to-llamascopium FOLDER OUT` makes a
folder for Llamascopium.

## Training

{_facts(config, record)}

![FVU against training tokens]({CURVE})

{_table(record.evaluations)}

## Provenance

{record.job["name"]}, step {last["step"]}; card written by lorsa {lorsa.__version__}.
sha256 of {WEIGHTS}: `{sha256}`. The job as it ran:

```json
{json.dumps(record.job["resolved_spec"]["training"], indent=2, sort_keys=True)}
```
"""


def _facts(config: LorsaConfig, record: TrainingRecord) -> str:
    spec, last = record.job["resolved_spec"]["training"], record.evaluations[-1]
    known = {name: spec.get(name, "unknown") for name in _FACTS}
    return "\n".join(
        (
            f"- Activation set `{known['activation_set']}`, {config.context} positions each",
            f"- {int(last['tokens']):,} tokens, {known['sequences_per_step']} sequences per step",
            f"- Peak learning rate {known['learning_rate']}, seed {known['seed']}",
        )
    )


_FACTS = ("activation_set", "sequences_per_step", "learning_rate", "seed")


def _table(evaluations: Sequence[Mapping[str, Any]]) -> str:
    names = [name for name in _SHOWN if name in evaluations[-1]["values"]]
    lines = [f"| tokens | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    lines += [
        f"| {int(each['tokens']):,} | {' | '.join(_number(each, name) for name in names)} |"
        for each in evaluations
    ]
    return "\n".join(lines)


def _number(evaluation: Mapping[str, Any], name: str) -> str:
    value = evaluation["values"].get(name)
    return "–" if value is None else f"{value:.4g}"


def _points(evaluations: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    return [(float(each["tokens"]), float(each["values"]["fvu"])) for each in evaluations]
