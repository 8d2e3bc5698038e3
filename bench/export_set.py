#!/usr/bin/env python3
"""Write an activation set as the one torch file that bench/peer_train.py reads.

Runs in the project's environment. Usage: export_set.py SET OUT.pt
"""

import sys

import torch
from lorsa import ActivationSet
from safetensors.torch import load_file

CHUNK = 64  # sequences read at a time


def main() -> None:
    folder, out = sys.argv[1:]
    with ActivationSet(folder) as activations:
        manifest = activations.manifest
        about, layer = manifest.description, manifest.description.attention
        shape = (len(activations), about.context, about.d_model)
        x, y = torch.empty(2, *shape, dtype=torch.bfloat16)
        mask = torch.empty(shape[:2], dtype=torch.bool)
        for start in range(0, len(activations), CHUNK):
            rows = slice(start, min(start + CHUNK, len(activations)))
            read = activations.read(rows.start, rows.stop - rows.start)
            x[rows] = torch.from_numpy(read.mhsa_input).bfloat16()
            y[rows] = torch.from_numpy(read.mhsa_output).bfloat16()
            mask[rows] = torch.from_numpy(read.mask)
        torch.save(
            {
                "x": x,
                "y": y,
                "mask": mask,
                "training": len(activations.training),
                "input_norm": manifest.mean_input_norm,
                "output_norm": manifest.mean_output_norm,
                "n_heads": layer.n_heads,
                "n_kv_heads": layer.n_kv_heads,
                "d_head": layer.d_head,
                "rope_base": layer.rope.base,
                "attention": load_file(activations.folder / "attention.safetensors"),
            },
            out,
        )


if __name__ == "__main__":
    main()
