#!/usr/bin/env python3
"""Time the peer's training step: forward, backward and Adam of Llamascopium's Lorsa on random data.

Runs in the environment of deploy/interop_environment.sh. Prints one JSON line with the median
over the steps.
"""

import argparse
import contextlib
import json
import resource
import statistics
import time

import torch
from peer_model import peer_lorsa


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--d-model", type=int, required=True)
    parser.add_argument("--n-ov", type=int, required=True)
    parser.add_argument("--n-qk", type=int, required=True)
    parser.add_argument("--d-qk", type=int, default=64)
    parser.add_argument("--k", type=int, default=64)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--sequences", type=int, default=8, help="per step")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=["fp32", "bf16"], required=True)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = peer_lorsa(
        d_model=args.d_model,
        n_ov=args.n_ov,
        n_qk=args.n_qk,
        d_qk=args.d_qk,
        k=args.k,
        context=args.context,
        rotary_dim=args.d_qk // 4,
        rotary_base=10000,
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    x, y = torch.randn(2, args.sequences, args.context, args.d_model)
    seconds = []
    for step in range(args.warmup + args.steps):
        start = time.perf_counter()
        autocast = torch.autocast("cpu", dtype=torch.bfloat16)
        with autocast if args.precision == "bf16" else contextlib.nullcontext():
            loss = (model.decode(model.encode(x)).float() - y).pow(2).sum(-1).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step >= args.warmup:
            seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    print(
        json.dumps(
            {
                "tokens_per_s": args.sequences * args.context / median,
                "step_s": median,
                "peak_rss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
            }
        )
    )


if __name__ == "__main__":
    main()
