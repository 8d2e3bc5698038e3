"""The order in which training visits a set's sequences (docs/activation_format.md): a keyed
permutation per epoch, the same as the C++ store's (activation_store/sequence_order.cc)."""

from __future__ import annotations

from collections.abc import Iterator

_ROUNDS = 8
_GAMMA = 0x9E3779B97F4A7C15  # SplitMix64's increment
_U64 = (1 << 64) - 1


class SequenceOrder:
    """A pure function of (sequences, seed, cursor)."""

    def __init__(self, sequences: int, seed: int) -> None:
        """`sequences` ≥ 1: those that may enter training; `seed`: 0 to 2^64 − 1."""
        if sequences < 1 or not 0 <= seed <= _U64:
            raise ValueError("sequences must be at least 1 and seed a 64-bit unsigned integer")
        self.sequences = sequences
        self._seed = seed
        self._half_bits = max(1, ((sequences - 1).bit_length() + 1) // 2)

    def at(self, cursor: int) -> int:
        """Index in the set of sequence number `cursor` ≥ 0; epoch e begins at e · sequences."""
        epoch, x = divmod(cursor, self.sequences)
        keys = self._keys(epoch)
        while True:  # cycle walking: a walk from inside [0, sequences) returns to it
            x = self._permute(x, keys)
            if x < self.sequences:
                return x

    def from_cursor(self, cursor: int) -> Iterator[int]:
        """The indices from `cursor` on, without end."""
        while True:
            yield self.at(cursor)
            cursor += 1

    def _keys(self, epoch: int) -> list[int]:
        state = _mix((_mix(self._seed) + epoch) & _U64)
        return [_mix((state + r * _GAMMA) & _U64) for r in range(1, _ROUNDS + 1)]

    def _permute(self, x: int, keys: list[int]) -> int:
        """A balanced Feistel network on 2 · half_bits bits."""
        mask = (1 << self._half_bits) - 1
        left, right = x >> self._half_bits, x & mask
        for key in keys:
            left, right = right, left ^ (_mix(right ^ key) & mask)
        return left << self._half_bits | right


def _mix(x: int) -> int:
    """SplitMix64's finaliser."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _U64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _U64
    return x ^ (x >> 31)
