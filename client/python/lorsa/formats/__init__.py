"""Lorsa checkpoints and activations in the formats of other programs (docs/formats.md)."""
