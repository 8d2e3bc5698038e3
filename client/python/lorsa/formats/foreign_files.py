"""Reading other programs' folders: JSON with defaults, and safetensors, never pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from lorsa.errors import LorsaError
from lorsa.files import read_bounded
from lorsa.strict_json import Fields, parse_object

_MAX_CONFIG_BYTES = 1 << 20
_PICKLES = (".pth", ".pt", ".bin", ".ckpt", ".dcp")
_TO_SAFETENSORS = (
    'python -c "import torch; from safetensors.torch import save_file; '
    "save_file({k: v.contiguous() for k, v in torch.load('IN', weights_only=True).items()}, "
    "'OUT')\""
)


def config_fields(folder: Path, defaults: dict[str, Any]) -> Fields:
    """The keys of a folder's config.json; `defaults` stand for those it leaves out."""
    path = folder / "config.json"
    value = parse_object(read_bounded(path, _MAX_CONFIG_BYTES), str(path))
    return Fields(defaults | value, str(path))


def find_weights(folder: Path, name: str) -> Path:
    """The safetensors file `name` of a folder; LorsaError says how to make it of a pickle."""
    path = folder / name
    if path.is_file():
        return path
    pickles = sorted(each for each in folder.glob("*") if each.suffix in _PICKLES)
    if not pickles:
        raise LorsaError(f"{path} is missing.")
    command = _TO_SAFETENSORS.replace("IN", str(pickles[0])).replace("OUT", str(path))
    raise LorsaError(
        f"{folder} holds {pickles[0].name}, a pickle, which can run any code when it is read: only "
        f"safetensors are. If you trust it, convert it where you trained it: {command}"
    )


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise LorsaError(f"{path} is not a safetensors file: {error}.") from error


def refuse(where: str, what: str) -> LorsaError:
    """The error for what this project's format cannot express."""
    return LorsaError(f"{where}: {what}, which a Lorsa checkpoint cannot express.")


def take_parameters(
    tensors: dict[str, Tensor], shapes: dict[str, tuple[int, ...]], where: str
) -> dict[str, Tensor]:
    """Pops `shapes` from `tensors`, as fp32; LorsaError for what is missing or of another shape."""
    taken = {}
    for name, shape in shapes.items():
        if name not in tensors:
            raise LorsaError(f"{where} lacks {name}.")
        tensor = tensors.pop(name)
        if tuple(tensor.shape) != shape:
            found = list(tensor.shape)
            raise LorsaError(f"{where}: {name} has shape {found}, its configuration {list(shape)}.")
        if not tensor.is_floating_point() or not tensor.isfinite().all():
            raise LorsaError(f"{where}: {name} does not hold finite floating-point numbers.")
        taken[name] = tensor.float().contiguous()
    return taken
