"""Whether weights have the activation scales folded in: decided by what they reconstruct.

Llamascopium's runners write `norm_activation: "dataset-wise"` into config.json and then fold the
scales into the weights, so that the two may disagree.
"""

from __future__ import annotations

import torch

from lorsa.activation_set import ActivationSet
from lorsa.errors import LorsaError
from lorsa.evaluation import EvaluationSums
from lorsa.formats.llamascopium import Folder
from lorsa.formats.weights import LorsaWeights
from lorsa.model import Lorsa

_SEQUENCES = 8


def settle_scales(
    folder: Folder, activations: ActivationSet | None, asked: str | None
) -> tuple[LorsaWeights, tuple[str, ...]]:
    """The weights with their scales, and what the user should know.

    `asked`: "folded", "dataset-wise" or None. LorsaError if nothing decides.
    """
    if asked is not None:
        return folder.weights(asked == "folded"), ()
    if activations is not None:
        return _decide(folder, activations)
    if folder.says_folded:
        return folder.weights(True), ()
    raise LorsaError(
        f"{folder.where}: its config.json says 'dataset-wise', which Llamascopium writes also "
        "beside weights that it has folded. Pass --check SET, an activation set of the layer, to "
        "find out, or --scales folded or --scales dataset-wise."
    )


def _decide(folder: Folder, activations: ActivationSet) -> tuple[LorsaWeights, tuple[str, ...]]:
    answers = (True, False) if folder.norms is not None else (True,)
    errors = {folded: _fvu(folder.weights(folded), activations) for folded in answers}
    folded = min(errors, key=errors.__getitem__)
    if errors[folded] >= 1:
        raise LorsaError(
            f"{folder.where} reconstructs nothing of {activations.folder} (FVU "
            f"{errors[folded]:.3g}): is that a set of its model, layer and hook convention?"
        )
    state = "folded into the weights" if folded else "not folded into the weights"
    notes = [f"The activation scales are {state}: FVU {errors[folded]:.4f} on {activations.folder}"]
    if len(errors) > 1:
        notes[0] += f", {errors[not folded]:.4g} otherwise"
    notes[0] += "."
    if folded != folder.says_folded:
        said = "inference" if folder.says_folded else "dataset-wise"
        notes.append(f"Its config.json says {said!r}, which is wrong for these weights.")
    return folder.weights(folded), tuple(notes)


def _fvu(weights: LorsaWeights, activations: ActivationSet) -> float:
    about = activations.manifest.description
    if about.hook_convention != weights.config.hook_convention:
        raise LorsaError(
            f"{activations.folder} holds inputs under {about.hook_convention}, the Lorsa reads "
            f"{weights.config.hook_convention}: check on a set of that convention."
        )
    if about.d_model != weights.config.d_model:
        raise LorsaError(f"{activations.folder} has another d_model than the Lorsa.")
    model = Lorsa.of(weights.config, weights.tensors)
    count = min(_SEQUENCES, len(activations))
    part = activations.read(len(activations) - count, count)
    sums = EvaluationSums(weights.config.n_ov_heads, weights.config.output_scale)
    with torch.no_grad():
        for x, y, mask in zip(part.mhsa_input, part.mhsa_output, part.mask, strict=True):
            acts = model.encode(torch.from_numpy(x)[None])
            sums.add(acts[0][mask], model.decode(acts)[0][mask], torch.from_numpy(y)[mask])
    return sums.metrics()["fvu"]
