"""How a checkpoint reaches its folder; the same protocol as client/cpp/checkpoint_download.cc, so
that either client goes on where the other stopped:

  1. ask the server for the list of files; refuse names, sizes and checksums that do not hold;
  2. if the folder has them all already, done;
  3. make FOLDER.partial; what it holds from an earlier try stays; check the room on the disk;
  4. each file: hash what is there, append the rest chunk by chunk (CRC-32C each), compare the
     sha256 of the whole, fsync. A mismatch removes the file; one that was resumed is then fetched
     once more from its first byte;
  5. fsync FOLDER.partial, rename it to FOLDER, fsync the folder above.

A crash before 5 leaves FOLDER.partial alone, which the next try takes up at 3. Nothing here talks
to a server: the clients drive it. One download per folder at a time.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import google_crc32c

from lorsa.client.cursors import Cursor
from lorsa.client.errors import (
    AbortedError,
    AlreadyExistsError,
    DataLossError,
    InvalidArgumentError,
    ResourceExhaustedError,
    RpcError,
    UnavailableError,
)
from lorsa.files import fsync, sha256_of
from lorsa.v1.checkpoint_service_pb2 import Checkpoint, CheckpointFile, ReadFileRequest
from lorsa.v1.file_chunk_pb2 import FileChunk

_MAX_FILES = 1_000
_MAX_TOTAL_BYTES = 1 << 46
_MAX_DAMAGED_CHUNKS = 5  # in a row
_READ_BYTES = 1 << 20


class Download:
    """Steps 1 to 3 and 5, and the transfers that step 4 needs."""

    def __init__(self, checkpoint: Checkpoint, folder: Path) -> None:
        """Step 1. InvalidArgumentError for a list of files that no honest server sends."""
        self.checkpoint = checkpoint
        self.bytes_total = _check_files(checkpoint)
        self.bytes_done = 0
        self._folder = folder.absolute()
        self._partial = self._folder.with_name(self._folder.name + ".partial")

    def is_complete(self) -> bool:
        """Step 2. AlreadyExistsError if the folder holds anything else."""
        if not self._folder.exists() or not any(self._folder.iterdir()):
            return False
        for file in self.checkpoint.files:
            path = self._folder / file.name
            if not path.is_file() or sha256_of(path) != file.sha256:
                raise AlreadyExistsError(
                    f"{self._folder} exists and is not {self.checkpoint.name} ({file.name} is "
                    "missing or differs): choose another folder, or remove it.",
                    "ALREADY_EXISTS",
                )
        return True

    def prepare(self) -> None:
        """Step 3."""
        self._partial.mkdir(parents=True, exist_ok=True)
        sizes = {file.name: file.size_bytes for file in self.checkpoint.files}
        for path in self._partial.iterdir():
            if path.name not in sizes:
                raise AlreadyExistsError(
                    f"{self._partial} holds {path.name}, which is not of {self.checkpoint.name}: "
                    "remove that folder, or choose another one.",
                    "ALREADY_EXISTS",
                )
            if path.stat().st_size > sizes[path.name]:
                path.unlink()
            else:
                self.bytes_done += path.stat().st_size
        free, needed = shutil.disk_usage(self._partial).free, self.bytes_total - self.bytes_done
        if free < needed:
            raise ResourceExhaustedError(
                f"{self.checkpoint.name} needs {needed} more bytes, but the disk of "
                f"{self._folder} has only {free} free: make room, or choose another folder.",
                "RESOURCE_EXHAUSTED",
            )

    def transfers(self) -> Iterator[FileTransfer]:
        """Step 4: each transfer is to be driven to its end before the next is asked for."""
        for file in self.checkpoint.files:
            was_resumed = (self._partial / file.name).exists()
            transfer = FileTransfer(self.checkpoint, file, self._partial / file.name)
            yield transfer
            is_right = transfer.verify()
            if not is_right and was_resumed:
                self.bytes_done -= file.size_bytes
                transfer = FileTransfer(self.checkpoint, file, self._partial / file.name)
                yield transfer
                is_right = transfer.verify()
            if not is_right:
                raise DataLossError(
                    f"{file.name} of {self.checkpoint.name} does not have the sha256 that the "
                    "server lists: it is damaged on the server; download another checkpoint.",
                    "DATA_LOSS",
                )

    def finish(self) -> None:
        """Step 5."""
        fsync(self._partial)
        self._partial.rename(self._folder)
        fsync(self._folder.parent)


class FileTransfer(Cursor[int]):
    """Step 4 for one file, from its size on disk to the end; gives the bytes of each chunk."""

    def __init__(self, checkpoint: Checkpoint, file: CheckpointFile, path: Path) -> None:
        self._checkpoint = checkpoint.name
        self._listed = file
        self._path = path
        self._digest = hashlib.sha256()
        self._damaged = 0
        self._file = path.open("ab")
        with path.open("rb") as before:
            while block := before.read(_READ_BYTES):
                self._digest.update(block)
        self._offset = path.stat().st_size
        self.ended = self._offset == file.size_bytes

    @property
    def what(self) -> str:
        return f"{self._listed.name} of {self._checkpoint} at byte {self._offset}"

    def request(self) -> ReadFileRequest:
        return ReadFileRequest(
            name=self._checkpoint,
            file=self._listed.name,
            offset=self._offset,
            expected_sha256=self._listed.sha256,
        )

    def handle(self, response: FileChunk) -> Iterator[int]:
        listed = self._listed
        if (response.file_size, response.file_sha256) != (listed.size_bytes, listed.sha256):
            raise AbortedError(
                f"{listed.name} of {self._checkpoint} changed on the server: download it again.",
                "ABORTED",
            )
        size = len(response.data)
        fits = response.offset == self._offset and 0 < size <= listed.size_bytes - self._offset
        if not fits or google_crc32c.value(response.data) != response.crc32c:
            raise self._damage()
        self._file.write(response.data)
        self._digest.update(response.data)
        self._offset += size
        self._damaged = 0
        self.ended = self._offset == listed.size_bytes
        yield size

    def verify(self) -> bool:
        """Whether the file, now durable, is the listed one; if not it is removed."""
        self._file.close()
        fsync(self._path)
        if self._digest.hexdigest() == self._listed.sha256:
            return True
        self._path.unlink()
        return False

    def close(self) -> None:
        """Lets go of the file; what was written stays."""
        self._file.close()

    def _damage(self) -> RpcError:
        """A chunk damaged on its way is asked for again, a few times."""
        what = f"The bytes of {self.what} on arrived damaged"
        self._damaged += 1
        if self._damaged < _MAX_DAMAGED_CHUNKS:
            return UnavailableError(f"{what}.", "UNAVAILABLE")
        return DataLossError(
            f"{what} {self._damaged} times in a row: check the network, then the server.",
            "DATA_LOSS",
        )


def _check_files(checkpoint: Checkpoint) -> int:
    """The total size of the files."""
    names = [file.name for file in checkpoint.files]
    total = int(sum(file.size_bytes for file in checkpoint.files))
    wrong = None
    if not 1 <= len(names) <= _MAX_FILES or len(set(names)) != len(names):
        wrong = f"{len(names)} files, or one twice"
    elif not all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", name) for name in names):
        wrong = "a name that is no file name"
    elif not all(re.fullmatch(r"[0-9a-f]{64}", file.sha256) for file in checkpoint.files):
        wrong = "a file without a sha256 in hex"
    elif any(file.size_bytes < 0 for file in checkpoint.files) or total > _MAX_TOTAL_BYTES:
        wrong = f"{total} bytes"
    if wrong is not None:
        raise InvalidArgumentError(
            f"The server lists {wrong} for {checkpoint.name}.", "INVALID_ARGUMENT"
        )
    return total
