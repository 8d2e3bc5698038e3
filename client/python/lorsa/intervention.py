"""A Lorsa in the place of a model's attention layer: downstream loss and interventions.

    with lorsa.replace_attention(model, 12, heads):
        logits = model(tokens).logits

Works with any transformers model of the harvest's families. Needs torch; transformers is the
caller's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lorsa.errors import LorsaError
from lorsa.harvest.families import family_of
from lorsa.manifest import TRANSFORMERS
from lorsa.model import Lorsa

Edit = Callable[[Tensor], Tensor]  # activations [B, S, H] → activations
_Substitute = Callable[[Tensor, Tensor], Tensor]  # input and own output of the layer → output


@contextmanager
def replace_attention(
    model: Any,
    layer: int,
    lorsa: Lorsa,
    *,
    special_ids: Collection[int] | None = None,
    error_term: bool = False,
    edit: Edit | None = None,
) -> Iterator[None]:
    """While the `with` block lasts, `lorsa` computes what attention layer `layer` returns.

    Positions that were never targets keep the model's own output: those of `special_ids` (pass the
    tokenizer's all_special_ids; default: BOS, EOS and padding of the model's configuration).
    `edit` changes the activations before they are decoded. With `error_term` what the Lorsa misses
    is added back, so that without an edit the model computes what it always did, and with one only
    the edited heads' part changes; the error term takes no gradient.

    Sequences are whole (no key-value cache) and padded on the right; anything else is a LorsaError.
    """
    if lorsa.config.hook_convention != TRANSFORMERS:
        raise LorsaError(
            f"The Lorsa reads inputs under {lorsa.config.hook_convention}; convert it to "
            f"{TRANSFORMERS} first (lorsa-convert --norm)."
        )

    def substitute(x_BSd: Tensor, own_BSd: Tensor) -> Tensor:
        acts_BSH = lorsa.encode(x_BSd)
        given_BSd = lorsa.decode(edit(acts_BSH) if edit is not None else acts_BSH)
        if error_term:
            given_BSd = given_BSd + (own_BSd - lorsa.decode(acts_BSH)).detach()
        return given_BSd

    with _substituted(model, layer, substitute, special_ids):
        yield


@dataclass(frozen=True)
class DownstreamLoss:
    """Mean next-token cross-entropy, in nats, with attention layer as it is, as the Lorsa, and as
    zero; the latter two where the Lorsa stands in."""

    model: float
    lorsa: float
    zero: float

    @property
    def recovered(self) -> float:
        """(zero − lorsa) / (zero − model): 1 if the Lorsa costs nothing, 0 if it is no better
        than nothing."""
        return (self.zero - self.lorsa) / (self.zero - self.model)


def downstream_loss(
    model: Any,
    layer: int,
    lorsa: Lorsa,
    tokens_NS: Tensor,
    *,
    special_ids: Collection[int] | None = None,
    batch_sequences: int = 8,
) -> DownstreamLoss:
    """What the Lorsa costs the model on `tokens_NS`, int64 [sequences, positions].

    Predictions of tokens in `special_ids` do not count.
    """

    def zero(x_BSd: Tensor, own_BSd: Tensor) -> Tensor:
        return torch.zeros_like(own_BSd)

    def loss() -> float:
        return _cross_entropy(model, tokens_NS, special_ids, batch_sequences)

    with torch.no_grad():
        whole = loss()
        with replace_attention(model, layer, lorsa, special_ids=special_ids):
            replaced = loss()
        with _substituted(model, layer, zero, special_ids):
            ablated = loss()
    return DownstreamLoss(model=whole, lorsa=replaced, zero=ablated)


@contextmanager
def _substituted(
    model: Any, layer: int, substitute: _Substitute, special_ids: Collection[int] | None
) -> Iterator[None]:
    family = family_of(model.config.model_type)
    blocks = family.blocks(model)
    if not 0 <= layer < len(blocks):
        raise LorsaError(f"Layer {layer} is not one of 0 to {len(blocks) - 1}.")
    special = _special_ids(model, special_ids)
    targets: list[Tensor] = []  # bool [B, S, 1] of the forward pass that runs

    def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        targets[:] = [_targets(args, kwargs, special)]

    def after(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        x_BSd = args[0] if args else kwargs["hidden_states"]
        own_BSd = output[0] if isinstance(output, tuple) else output
        given_BSd = substitute(x_BSd, own_BSd).to(own_BSd.dtype)
        mixed_BSd = torch.where(targets[0], given_BSd, own_BSd)
        return (mixed_BSd, *output[1:]) if isinstance(output, tuple) else mixed_BSd

    attention = family.attention(blocks[layer])
    hooks = [
        model.register_forward_pre_hook(before, with_kwargs=True),
        attention.register_forward_hook(after, with_kwargs=True),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _special_ids(model: Any, given: Collection[int] | None) -> Tensor:
    if given is None:
        config = model.config
        named = [getattr(config, f"{name}_token_id", None) for name in ("bos", "eos", "pad")]
        lists = [each if isinstance(each, list) else [each] for each in named]
        given = [each for each in itertools.chain.from_iterable(lists) if each is not None]
    return torch.tensor(sorted(given), dtype=torch.int64)


def _targets(args: tuple[Any, ...], kwargs: dict[str, Any], special: Tensor) -> Tensor:
    tokens = args[0] if args else kwargs.get("input_ids")
    if tokens is None:
        raise LorsaError("The model must be given input_ids, which tell the special tokens.")
    # The cache's argument has had several names.
    caches = [each for each in kwargs.values() if hasattr(each, "get_seq_length")]
    if any(cache.get_seq_length() > 0 for cache in caches):
        raise LorsaError("A Lorsa sees whole sequences: run the model with use_cache=False.")
    mask = kwargs.get("attention_mask")
    if mask is not None and (mask.ndim != 2 or (mask[:, 1:] > mask[:, :-1]).any()):
        raise LorsaError("Pad on the right (tokenizer.padding_side = 'right').")
    return ~torch.isin(tokens, special.to(tokens.device))[..., None]


def _cross_entropy(
    model: Any, tokens_NS: Tensor, special_ids: Collection[int] | None, size: int
) -> float:
    special = _special_ids(model, special_ids).to(tokens_NS.device)
    total, count = 0.0, 0
    for tokens in tokens_NS.split(size):
        logits = model(input_ids=tokens, use_cache=False).logits[:, :-1].float()
        next_tokens = tokens[:, 1:]
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), next_tokens.flatten(), reduction="none"
        )
        counts = ~torch.isin(next_tokens, special).flatten()
        total += float(losses[counts].double().sum())
        count += int(counts.sum())
    return total / max(count, 1)
