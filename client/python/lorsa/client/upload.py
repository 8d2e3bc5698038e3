"""How the files of a set reach a server; the same protocol as client/cpp/set_upload.cc, so that
either client goes on where the other stopped:

  1. list the shards, then attention.safetensors, checksums.h5 and manifest.json as far as they are
     there: the manifest, which vouches for the others, is sent last;
  2. each file: compute its sha256, ask the server how much of it it has, send the rest in pieces
     (CRC-32C each); the server compares the sha256 of the whole. Of a file that it has nothing is
     sent but its name and sha256;
  3. a connection that breaks, or a server that still holds on to the one before, leads back to 2.

Nothing here talks to a server: the clients drive it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import google_crc32c

from lorsa.client.errors import AlreadyExistsError, RpcError, UnavailableError
from lorsa.errors import LorsaError
from lorsa.files import sha256_of
from lorsa.manifest import ATTENTION_WEIGHTS
from lorsa.manifest import FILE_NAME as MANIFEST
from lorsa.sealing import CHECKSUMS
from lorsa.v1.activation_service_pb2 import (
    GetUploadRequest,
    Upload,
    UploadData,
    UploadedFile,
    UploadShardRequest,
    UploadStart,
)

_PIECE_BYTES = 1 << 20
OnProgress = Callable[[int, int], None]  # bytes that the server has, bytes in all


class SetUpload:
    """Step 1, and the files of step 2."""

    def __init__(self, set_id: str, folder: Path, on_progress: OnProgress | None) -> None:
        """LorsaError if the folder holds no shard. `on_progress` may be called on any thread."""
        shards = sorted(folder.glob("shard-*.h5"))
        if not shards:
            raise LorsaError(f"{folder} holds no shard (shard-00000.h5).")
        others = [folder / name for name in (ATTENTION_WEIGHTS, CHECKSUMS, MANIFEST)]
        paths = [*shards, *(path for path in others if path.exists())]
        self._manifest = folder / MANIFEST
        self._on_progress = on_progress
        self.files = [FileUpload(set_id, path, self._report) for path in paths]

    def manifest_sha256(self) -> str:
        """The identity of a sealed set; empty if the folder is not sealed yet."""
        return sha256_of(self._manifest) if self._manifest.exists() else ""

    def _report(self) -> None:
        if self._on_progress is not None:
            done, total = (sum(getattr(f, name) for f in self.files) for name in ("sent", "size"))
            self._on_progress(done, total)


class FileUpload:
    """Step 2 for one file."""

    def __init__(self, set_id: str, path: Path, report: Callable[[], None]) -> None:
        self.size = path.stat().st_size
        self.sent = 0  # bytes
        self._set_id = set_id
        self._path = path
        self._report = report
        self._sha256 = ""
        self._acknowledged = 0  # bytes that the server had when it was last asked
        self._failure: LorsaError | None = None

    def question(self) -> GetUploadRequest:
        """What the server has of the set."""
        return GetUploadRequest(activation_set_id=self._set_id)

    def prepare(self) -> None:
        """Reads the file once, for its sha256."""
        self._sha256 = sha256_of(self._path)

    def has_advanced(self, there: Upload) -> bool:
        """Takes note of what the server has: whether that is more than it had before.

        AlreadyExistsError if it cannot be a part of this file.
        """
        found = [file for file in there.files if file.file == self._path.name]
        before, self._acknowledged = self._acknowledged, sum(each.received_bytes for each in found)
        if self._acknowledged > self.size:
            raise AlreadyExistsError(
                f"The server has a longer {self._path.name} under the id {self._set_id}: choose "
                "another id.",
                "ALREADY_EXISTS",
            )
        return self._acknowledged > before

    def requests(self) -> Iterator[UploadShardRequest]:
        """What the server has not, as one call."""
        offset = self._acknowledged
        start = UploadStart(
            activation_set_id=self._set_id,
            file=self._path.name,
            size_bytes=self.size,
            sha256=self._sha256,
            offset=offset,
        )
        yield UploadShardRequest(start=start)
        with self._path.open("rb") as file:
            file.seek(offset)
            while offset < self.size:
                self._reached(offset)
                piece = file.read(min(_PIECE_BYTES, self.size - offset))
                if not piece:
                    # Not raised: gRPC would make another error of it.
                    self._failure = LorsaError(
                        f"{self._path} became shorter: upload the set once it is finished."
                    )
                    return
                data = UploadData(data=piece, crc32c=google_crc32c.value(piece))
                yield UploadShardRequest(data=data)
                offset += len(piece)
        self._reached(offset)

    def _reached(self, offset: int) -> None:
        self.sent = offset
        self._report()

    def broken(self, answer: UploadedFile | RpcError) -> RpcError | None:
        """Step 3: None if the server has the file; else what is wrong with the connection, or an
        error that no other connection mends. LorsaError if the file itself changed.
        """
        if self._failure is not None:
            raise self._failure
        if isinstance(answer, UploadedFile):
            if answer.complete:
                return None
            what = f"The server has only {answer.received_bytes} bytes of {self._path.name}."
            return UnavailableError(what, "UNAVAILABLE")
        if answer.reason == "OFFSET_MISMATCH":  # a call whose connection broke was not over yet
            return UnavailableError(str(answer), "UNAVAILABLE", answer.reason)
        return answer
