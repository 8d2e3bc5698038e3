#!/usr/bin/env python3
"""Arrow Flight in bench/stream_vs_flight.sh: the set as an Arrow file, a server, a client.

Runs in the environment of deploy/interop_environment.sh.
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.flight
from lorsa import ActivationSet
from lorsa.shards import RawSequences

DTYPES = {"mhsa_input": np.uint16, "mhsa_output": np.uint16, "tokens": np.int32, "mask": np.uint8}


def convert(folder: str, out: str, batch_sequences: int) -> None:
    """Writes the set's sequences in the order of their indices; a row is one sequence, a column one
    dataset, a value its stored bytes."""
    with ActivationSet(folder) as activations:
        first = activations.read_raw(0)
        schema = pa.schema([(name, pa.binary(getattr(first, name)[0].nbytes)) for name in DTYPES])
        with pa.OSFile(out, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for start in range(0, len(activations), batch_sequences):
                raw = activations.read_raw(start, min(batch_sequences, len(activations) - start))
                columns = [
                    pa.FixedSizeBinaryArray.from_buffers(
                        field.type, len(raw), [None, pa.py_buffer(getattr(raw, field.name))]
                    )
                    for field in schema
                ]
                writer.write_batch(pa.record_batch(columns, schema=schema))


class Server(pa.flight.FlightServerBase):
    """Serves one memory-mapped Arrow file; each stream is handled in C++ alone."""

    def __init__(self, path: str) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._table = pa.ipc.open_file(pa.memory_map(path)).read_all()

    def do_get(
        self, context: pa.flight.ServerCallContext, ticket: pa.flight.Ticket
    ) -> pa.flight.FlightDataStream:
        return pa.flight.RecordBatchStream(self._table)


def serve(path: str, endpoint: str) -> None:
    server = Server(path)
    partial = Path(f"{endpoint}.partial")
    partial.write_text(f"127.0.0.1:{server.port}")
    partial.rename(endpoint)
    server.serve()


def batches(client: pa.flight.FlightClient):
    reader = client.do_get(pa.flight.Ticket(b""))
    while True:
        try:
            yield reader.read_chunk().data
        except StopIteration:
            return


def receive_once(client: pa.flight.FlightClient) -> float:
    """Megabytes (10^6 bytes) of sequences per second."""
    size = 0
    start = time.perf_counter()
    for batch in batches(client):
        size += sum(column.nbytes for column in batch.columns)
    return size / 1e6 / (time.perf_counter() - start)


def digest(client: pa.flight.FlightClient) -> int:
    """Sum of the sequences' checksums modulo 2^64: of the bytes, whatever their order."""
    total = 0
    for batch in batches(client):
        columns = {
            name: np.frombuffer(batch.column(name).buffers()[1], dtype).reshape(len(batch), -1)
            for name, dtype in DTYPES.items()
        }
        total += sum(int(checksum) for checksum in RawSequences(**columns).checksums())
    return total % 2**64


def receive(client: pa.flight.FlightClient, passes: int) -> None:
    receive_once(client)
    figures = [receive_once(client) for _ in range(passes)]
    print(f"MB/s {statistics.median(figures):.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("convert")
    command.add_argument("folder")
    command.add_argument("out")
    command.add_argument("batch_sequences", type=int)
    command = commands.add_parser("serve")
    command.add_argument("path")
    command.add_argument("endpoint", help="file to write HOST:PORT into")
    command = commands.add_parser("receive")
    command.add_argument("server")
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("--passes", type=int)
    what.add_argument("--digest", action="store_true")
    args = parser.parse_args()
    if args.command == "convert":
        return convert(args.folder, args.out, args.batch_sequences)
    if args.command == "serve":
        return serve(args.path, args.endpoint)
    client = pa.flight.connect(f"grpc://{args.server}")
    if args.digest:
        print(f"digest {digest(client)}")
    else:
        receive(client, args.passes)


if __name__ == "__main__":
    main()
