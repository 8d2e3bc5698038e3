"""A small curve as SVG, without a plotting library."""

from __future__ import annotations

from collections.abc import Sequence

_WIDTH, _HEIGHT, _EDGE = 560, 280, 40


def svg_curve(title: str, points: Sequence[tuple[float, float]]) -> str:
    """`points`, (tokens, value), drawn from 0 on both axes."""
    right = max([x for x, _ in points] + [1.0])
    top = max([y for _, y in points] + [1e-9])

    def place(x: float, y: float) -> str:
        across = _EDGE + x / right * (_WIDTH - 2 * _EDGE)
        return f"{across:.1f},{_HEIGHT - _EDGE - y / top * (_HEIGHT - 2 * _EDGE):.1f}"

    line = " ".join(place(x, y) for x, y in points)
    axes = f"M{_EDGE},{_EDGE} V{_HEIGHT - _EDGE} H{_WIDTH - _EDGE}"
    box = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12"'
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" {box}>
<rect width="100%" height="100%" fill="white"/>
<path d="{axes}" fill="none" stroke="black"/>
<polyline points="{line}" fill="none" stroke="#1f77b4" stroke-width="2"/>
<text x="{_EDGE}" y="{_EDGE - 10}">{title} (top: {top:.3g})</text>
<text x="{_WIDTH - _EDGE}" y="{_HEIGHT - _EDGE + 20}" text-anchor="end">{right:,.0f} tokens</text>
</svg>
"""
