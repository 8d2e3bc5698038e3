"""A catalog as the oldest lorsad wrote it."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3

from service import ROOT


def make_version_1(data: pathlib.Path) -> pathlib.Path:
    """The catalog of the folder `data`, which has none, with the tables and the job `old` of the
    oldest program in server/catalog/schema_test.cc.
    """
    source = (ROOT / "server/catalog/schema_test.cc").read_text()
    tables = source.split('R"sql(', 1)[1].split(')sql"', 1)[0]
    catalog = data / "catalog.sqlite"
    with contextlib.closing(sqlite3.connect(catalog)) as connection:
        connection.executescript(tables)
    return catalog
