#!/usr/bin/env python3
"""Train the peer's Lorsa, llamascopium, on a file of bench/export_set.py; print FVU against tokens.

Runs in the peer's own environment (deploy/interop_environment.sh). Initialisation as the peer's own
recipe has it: Q and K from the layer, V and O random in each head's value space, the decoder's norm
by a search on one batch; b_D the mean target. Adam; learning rate up in 5 % of the steps, down in
the last 20 %. Prints one JSON line per evaluation, on the held-out sequences.
"""

import argparse
import json
import math
import time
from typing import Any

import numpy as np
import torch
from llamascopium.models.lorsa import LowRankSparseAttention
from peer_model import peer_lorsa

EVALUATION_STEPS = 50


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--n-ov", type=int, default=4608)
    parser.add_argument("--n-qk", type=int, default=36)
    parser.add_argument("--k", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--steps", type=int, default=450)
    parser.add_argument("--batch", type=int, default=8, help="sequences a step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


class Data:
    """Scaled activations: mean norm sqrt(d_model) over targets."""

    def __init__(self, path: str) -> None:
        self.file: dict[str, Any] = torch.load(path, mmap=True)
        self.d_model = self.file["x"].shape[-1]
        self.context = self.file["x"].shape[1]
        self.training = self.file["training"]
        self.input_scale = math.sqrt(self.d_model) / self.file["input_norm"]
        self.output_scale = math.sqrt(self.d_model) / self.file["output_norm"]

    def batch(self, index: torch.Tensor | slice) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = self.file["x"][index].float() * self.input_scale
        y = self.file["y"][index].float() * self.output_scale
        return x, y, self.file["mask"][index]


def copy_qk(model: LowRankSparseAttention, data: Data) -> tuple[torch.Tensor, torch.Tensor]:
    """Sets W_Q and W_K; returns the layer's W_V [heads, d, d_head] and W_O [heads, d_head, d]."""
    heads, kv_heads, d_head = (data.file[name] for name in ("n_heads", "n_kv_heads", "d_head"))
    weights, d, copies = data.file["attention"], data.d_model, model.cfg.n_qk_heads // heads

    def split(name: str, count: int) -> torch.Tensor:
        return weights[name].view(count, d_head, d).transpose(1, 2)

    w_q = split("q_proj.weight", heads)
    w_k, w_v = (
        split(name, kv_heads).repeat_interleave(heads // kv_heads, 0)
        for name in ("k_proj.weight", "v_proj.weight")
    )
    model.W_Q.copy_(w_q.repeat_interleave(copies, 0) / data.input_scale)
    model.W_K.copy_(w_k.repeat_interleave(copies, 0) / data.input_scale)
    return w_v, weights["o_proj.weight"].view(d, heads, d_head).permute(1, 2, 0)


def initialise(model: LowRankSparseAttention, data: Data) -> None:
    x, y, mask = data.batch(slice(0, 512))
    model.b_D.copy_(y[mask].mean(0))
    w_v, w_o = copy_qk(model, data)
    heads, _, d_head = w_v.shape
    per_head = model.cfg.n_ov_heads // heads
    flat = x[:16][mask[:16]]
    for head in range(heads):
        captured = flat @ w_v[head] @ w_v[head].T
        centred = captured - captured.mean(0)
        basis = torch.linalg.svd(centred.T, full_matrices=False)[0][:, :d_head]
        rows = slice(head * per_head, (head + 1) * per_head)
        model.W_V[rows] = model.W_V[rows, :d_head] @ basis.T
        model.W_O[rows] = model.W_V[rows] @ w_v[head] @ w_o[head]
    model.W_V.div_(model.W_V.norm(dim=1, keepdim=True))
    model.W_O.div_(model.W_O.norm(dim=1, keepdim=True))
    losses = {}
    for norm in np.linspace(0.1, 5.0, 50):
        model.W_O.mul_(norm / model.W_O.norm(dim=1).mean())
        losses[norm] = squared_errors(model, x[:8], y[:8])[mask[:8]].mean().item()
    model.W_O.mul_(min(losses, key=losses.__getitem__) / model.W_O.norm(dim=1).mean())


def squared_errors(model: LowRankSparseAttention, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (model.decode(model.encode(x)) - y).pow(2).sum(-1)


@torch.no_grad()
def evaluate(model: LowRankSparseAttention, data: Data) -> dict[str, float]:
    x, y, mask = data.batch(slice(data.training, None))
    mean = y[mask].mean(0)
    error = variance = 0.0
    fired = torch.zeros(model.cfg.n_ov_heads, dtype=torch.bool)
    for start in range(0, len(x), 8):
        rows = slice(start, start + 8)
        z, kept = model.encode(x[rows]), mask[rows]
        error += (model.decode(z) - y[rows])[kept].pow(2).sum().item()
        variance += (y[rows][kept] - mean).pow(2).sum().item()
        fired |= (z[kept] != 0).any(0)
    return {"fvu": error / variance, "dead_fraction": 1 - fired.float().mean().item()}


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    data = Data(args.data)
    model = peer_lorsa(
        d_model=data.d_model,
        n_ov=args.n_ov,
        n_qk=args.n_qk,
        d_qk=data.file["d_head"],
        k=args.k,
        context=data.context,
        rotary_dim=data.file["d_head"],
        rotary_base=data.file["rope_base"],
    )
    with torch.no_grad():
        initialise(model, data)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    warm, cool = max(1, int(0.05 * args.steps)), max(1, int(0.2 * args.steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: (
            min(1, (step + 1) / warm)
            * (1 if step < args.steps - cool else max((args.steps - step) / cool, 1 / 32))
        ),
    )
    order = torch.randperm(data.training, generator=torch.Generator().manual_seed(args.seed + 1))
    print(json.dumps({"tokens": 0, "seconds": 0, **evaluate(model, data)}), flush=True)
    seconds = 0.0
    for step in range(args.steps):
        chosen = torch.arange(step * args.batch, (step + 1) * args.batch) % data.training
        x, y, mask = data.batch(order[chosen])
        start = time.perf_counter()
        loss = squared_errors(model, x, y)[mask].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        seconds += time.perf_counter() - start
        if (step + 1) % EVALUATION_STEPS == 0:
            tokens = (step + 1) * args.batch * data.context
            point = {"tokens": tokens, "seconds": seconds, **evaluate(model, data)}
            print(json.dumps(point), flush=True)


if __name__ == "__main__":
    main()
