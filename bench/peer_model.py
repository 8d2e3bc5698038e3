"""The peer's Lorsa, llamascopium's, as both comparisons build it."""

import warnings

warnings.filterwarnings("ignore", message="CUDA is not available")

import torch  # noqa: E402
from llamascopium.models.lorsa import LorsaConfig, LowRankSparseAttention  # noqa: E402


def peer_lorsa(
    *,
    d_model: int,
    n_ov: int,
    n_qk: int,
    d_qk: int,
    k: int,
    context: int,
    rotary_dim: int,
    rotary_base: float,
) -> LowRankSparseAttention:
    """One with random weights, fp32, on the CPU; rotary pairs are half-split."""
    model = LowRankSparseAttention(
        LorsaConfig(
            sae_type="lorsa",
            d_model=d_model,
            expansion_factor=n_ov / d_model,
            hook_point_in="in",
            hook_point_out="out",
            n_qk_heads=n_qk,
            d_qk_head=d_qk,
            rotary_dim=rotary_dim,
            rotary_base=rotary_base,
            rotary_adjacent_pairs=False,
            n_ctx=context,
            act_fn="topk",
            top_k=k,
            norm_activation="inference",
            device="cpu",
            dtype=torch.float32,
        )
    )
    model.init_parameters()
    return model
