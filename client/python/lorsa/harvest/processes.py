"""Several processes that harvest shards of the same sets.

Each has the model for itself and is given one shard after the other. All of them hold the folder's
lock as long as they live: no other harvest begins while one that lost its parent still writes. Such
a process ends when it next reports to the parent, after at most one batch.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from lorsa.errors import LorsaError
from lorsa.folder_lock import FolderLock
from lorsa.harvest.capture import LayerCapture
from lorsa.harvest.families import family_of
from lorsa.harvest.layer_set import LayerSet
from lorsa.harvest.options import HarvestOptions
from lorsa.harvest.shard_pass import PackedText, ShardMaker, Summaries


class HarvestProcesses:
    """Makes shards in `options.processes` processes with as many threads each as this one has."""

    def __init__(self, options: HarvestOptions, lock: FolderLock) -> None:
        self._options = options
        self._lock = lock

    def make(
        self, shards: Sequence[tuple[int, PackedText]], advance: Callable[[int], None]
    ) -> Iterator[tuple[int, Summaries]]:
        """In the order in which they are finished; LorsaError if a process ends."""
        waiting = deque((n, text.tokens.numpy(), text.mask.numpy()) for n, text in shards)
        with self._started(min(self._options.processes, len(shards))) as connections:
            for connection in connections:
                _send(connection, waiting.popleft())
            busy = set(connections)
            while busy:
                for ready in wait(list(busy)):
                    assert isinstance(ready, Connection)
                    message = _receive(ready)
                    if isinstance(message, int):
                        advance(message)
                        continue
                    yield message
                    if waiting:
                        _send(ready, waiting.popleft())
                    else:
                        busy.remove(ready)

    @contextmanager
    def _started(self, count: int) -> Iterator[list[Connection]]:
        context = multiprocessing.get_context("spawn")
        connections, processes = [], []
        try:
            for _ in range(count):
                ours, theirs = context.Pipe()
                connections.append(ours)
                arguments = (self._options, torch.get_num_threads(), theirs, self._lock)
                process = context.Process(target=_serve, args=arguments, daemon=True)
                process.start()
                processes.append(process)
                theirs.close()
            yield connections
        finally:
            for process in processes:  # idle, unless something went wrong
                process.kill()
                process.join()


def _send(connection: Connection, shard: tuple[int, Any, Any]) -> None:
    try:
        connection.send(shard)
    except (BrokenPipeError, ConnectionResetError) as error:
        raise _process_ended() from error


def _receive(connection: Connection) -> Any:
    """Tokens that were harvested, or a shard that was finished."""
    try:
        message = connection.recv()
    except (EOFError, ConnectionResetError) as error:
        raise _process_ended() from error
    if isinstance(message, Exception):
        raise message
    return message


def _process_ended() -> LorsaError:
    return LorsaError(
        "A process of the harvest was ended from outside: give the same command again; if "
        "memory was short, with fewer --processes."
    )


def _serve(options: HarvestOptions, threads: int, connection: Connection, lock: FolderLock) -> None:
    """The process: answers each shard with its tokens, batch by batch, and its summaries."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    torch.set_num_threads(threads)
    try:
        model, _ = options.source.load()
        family = family_of(model.config.model_type)
        sets = [LayerSet.of(options, family, model, layer) for layer in options.layers]
        with LayerCapture(family, model, options.layers, options.hook_convention) as capture:
            maker = ShardMaker(sets, capture, options.batch)
            while True:
                shard, tokens, mask = connection.recv()
                text = PackedText(torch.from_numpy(tokens), torch.from_numpy(mask))
                connection.send((shard, maker.write(shard, text, connection.send)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent has ended
    except (LorsaError, OSError) as error:
        connection.send(error)
