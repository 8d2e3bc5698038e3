"""A Lorsa in the place of attention layers: of one that computes just what the layer does, and of
others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import CONFIGURATIONS, save_model
from torch import Tensor
from transformers import AutoModelForCausalLM

from lorsa import Lorsa, downstream_loss, replace_attention
from lorsa.errors import LorsaError
from lorsa.harvest.description import describe
from lorsa.harvest.families import exported_weights, family_of
from lorsa.lorsa_config import LorsaConfig

LAYER = 1
CONTEXT = 24
SPECIAL = (1, 2)  # BOS and EOS of the tiny models


def load(family: str, folder: Path) -> Any:
    save_model(folder, CONFIGURATIONS[family])
    return AutoModelForCausalLM.from_pretrained(folder).eval()


def lorsa_of_layer(model: Any) -> Lorsa:
    """Every dimension of every value head is a head of its own, and all are active: the layer."""
    family = family_of(model.config.model_type)
    about = describe(family, model, LAYER, CONTEXT)
    weights = exported_weights(family, family.blocks(model)[LAYER])
    n, D = about.n_heads, about.d_head
    d = weights["o_proj.weight"].shape[0]

    def by_head(part: str) -> tuple[Tensor, Tensor]:
        weight = weights[f"{part}.weight"].view(-1, D, d)
        bias = weights.get(f"{part}.bias", torch.zeros(weight.shape[0] * D)).view(-1, D)
        copies = n // len(weight)
        return weight.repeat_interleave(copies, 0), bias.repeat_interleave(copies, 0)

    (q, b_q), (k, b_k), (v, b_v) = (by_head(part) for part in ("q_proj", "k_proj", "v_proj"))
    tensors = {"W_Q": q.transpose(1, 2), "W_K": k.transpose(1, 2), "b_Q": b_q, "b_K": b_k}
    tensors |= {"W_V": v.flatten(0, 1), "b_V": b_v.flatten(), "W_O": weights["o_proj.weight"].T}
    tensors["b_D"] = weights.get("o_proj.bias", torch.zeros(d))
    if about.qk_norm is not None:
        tensors["ln_q.w"] = weights["q_norm.weight"].expand(n, D)
        tensors["ln_k.w"] = weights["k_norm.weight"].expand(n, D)
    config = LorsaConfig(
        d_model=d,
        n_ov_heads=n * D,
        n_qk_heads=n,
        d_qk=D,
        top_k=n * D,
        selection="signed",
        select_by_decoder_norm=True,
        decoder_bias=True,
        attn_scale=about.attn_scale,
        rope=about.rope,
        qk_norm=about.qk_norm,
        context=CONTEXT,
    )
    return Lorsa.of(config, tensors)


def zeroed(lorsa: Lorsa) -> Lorsa:
    with torch.no_grad():
        lorsa.W_O.zero_()
        lorsa.b_D.zero_()
    return lorsa


@pytest.fixture
def tokens() -> Tensor:
    """BOS, then text with a special token in it."""
    tokens = torch.randint(3, 300, (3, CONTEXT), generator=torch.Generator().manual_seed(0))
    tokens[:, 0], tokens[1, 10] = 1, 2
    return tokens


@torch.no_grad()
@pytest.mark.parametrize("family", CONFIGURATIONS)
def test_a_lorsa_that_is_the_layer_changes_nothing(
    family: str, tmp_path: Path, tokens: Tensor
) -> None:
    model = load(family, tmp_path)
    own = model(tokens, use_cache=False).logits
    lorsa = lorsa_of_layer(model)
    with replace_attention(model, LAYER, lorsa):
        replaced = model(tokens, use_cache=False).logits
    assert (replaced - own).abs().max() <= 1e-4 * own.abs().max()
    with replace_attention(model, LAYER, zeroed(lorsa)):
        ablated = model(tokens, use_cache=False).logits
    assert (ablated - own).abs().max() > 0.01 * own.abs().max(), "the hook is on the layer"
    assert torch.equal(model(tokens, use_cache=False).logits, own), "and gone afterwards"


@torch.no_grad()
def test_positions_that_were_never_targets_keep_their_output(
    tmp_path: Path, tokens: Tensor
) -> None:
    model = load("llama", tmp_path)
    seen: list[Tensor] = []
    attention = model.model.layers[LAYER].self_attn
    own = attention.register_forward_hook(lambda m, a, out: seen.append(out[0].clone()))
    with replace_attention(model, LAYER, zeroed(lorsa_of_layer(model)), special_ids=SPECIAL):
        replaced = attention.register_forward_hook(lambda m, a, out: seen.append(out[0].clone()))
        model(tokens, use_cache=False)
        replaced.remove()
    own.remove()
    special = torch.isin(tokens, torch.tensor(SPECIAL))
    assert special.sum() == 4
    assert torch.equal(seen[1][special], seen[0][special])
    assert (seen[1][~special] == 0).all()
    assert (seen[0][~special] != 0).any()


def test_the_error_term_leaves_what_is_not_edited(tmp_path: Path, tokens: Tensor) -> None:
    model = load("gpt_neox", tmp_path)
    lorsa = lorsa_of_layer(model)
    with torch.no_grad():
        lorsa.W_O.mul_(0.5)  # a poor reconstruction
        own = model(tokens, use_cache=False).logits
        with replace_attention(model, LAYER, lorsa, error_term=True):
            same = model(tokens, use_cache=False).logits
        assert (same - own).abs().max() <= 1e-4 * own.abs().max()

    def without_head_3(acts: Tensor) -> Tensor:
        return acts * (torch.arange(acts.shape[-1]) != 3)

    with replace_attention(model, LAYER, lorsa, error_term=True, edit=without_head_3):
        edited = model(tokens, use_cache=False).logits
    assert (edited - own).abs().max() > 1e-3 * own.abs().max()
    edited.sum().backward()
    assert lorsa.W_V.grad is not None
    assert (lorsa.W_V.grad[3] == 0).all()
    assert (lorsa.W_V.grad[4] != 0).any()


def test_downstream_loss_is_recovered_by_the_layer_and_not_by_nothing(
    tmp_path: Path, tokens: Tensor
) -> None:
    model = load("qwen2", tmp_path)
    lorsa = lorsa_of_layer(model)
    loss = downstream_loss(model, LAYER, lorsa, tokens, batch_sequences=2)
    assert abs(loss.zero - loss.model) > 1e-3
    assert loss.recovered == pytest.approx(1.0, abs=1e-2)
    nothing = downstream_loss(model, LAYER, zeroed(lorsa), tokens)
    assert nothing.recovered == pytest.approx(0.0, abs=1e-6)
    assert nothing.model == pytest.approx(loss.model, rel=1e-6)


def test_what_a_lorsa_cannot_stand_in_for_is_refused(tmp_path: Path, tokens: Tensor) -> None:
    model = load("llama", tmp_path)
    lorsa = lorsa_of_layer(model)
    with replace_attention(model, LAYER, lorsa):
        with pytest.raises(LorsaError, match="use_cache=False"):
            model.generate(tokens[:1, :4], min_new_tokens=3, max_new_tokens=3, do_sample=False)
        left = torch.ones_like(tokens)
        left[0, 0] = 0
        with pytest.raises(LorsaError, match="Pad on the right"):
            model(tokens, attention_mask=left, use_cache=False)
        embedded = model.get_input_embeddings()(tokens)
        with pytest.raises(LorsaError, match="input_ids"):
            model(inputs_embeds=embedded, use_cache=False)
    with (
        pytest.raises(LorsaError, match="Layer 9 is not one of 0 to 2"),
        replace_attention(model, 9, lorsa),
    ):
        pass
