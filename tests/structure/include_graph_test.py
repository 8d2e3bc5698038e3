"""The folders of C++ code and what they may include (docs/architecture.md, "Folders")."""

import re
import subprocess
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INCLUDE = re.compile(r'^#include [<"]([^>"]+)[>"]', re.MULTILINE)

# Headers of libraries that a folder must not see, directly or through our own headers.
GRPC = ("grpcpp/", "grpc/")
TORCH = ("ATen/", "torch/", "c10/")
FORBIDDEN = {
    "activation_store": GRPC + TORCH,
    "base": GRPC + TORCH,
    "client/cli": TORCH,
    "client/cpp": TORCH,
    "job_spec": GRPC + TORCH,
    "server": TORCH,
    "server/catalog": GRPC + TORCH,
    "server/inspection": TORCH,
    "server/jobs": TORCH,
    "server/kinds": TORCH,
    "server/model": GRPC + TORCH,
    "server/rpc": TORCH,
    "server/services": TORCH,
    "server/webhooks": GRPC + TORCH,
    "trainer/config": GRPC + TORCH,
    "trainer/kernels": GRPC,
    "trainer/lorsa": GRPC,
    "trainer/parallel": GRPC,
    "trainer/resources": GRPC + TORCH,
    "trainer/train": GRPC,
}


def sources() -> dict[str, set[str]]:
    """Each .h and .cc file of the project and what it includes, both from the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.h", "*.cc"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    files = [name for name in listed.stdout.split() if (ROOT / name).is_file()]
    return {name: set(INCLUDE.findall((ROOT / name).read_text())) for name in files}


def folder_of(name: str) -> str:
    """The folder of a file; `testing` belongs to the folder that it stands in."""
    return str(Path(name).parent).removesuffix("/testing")


def folder_graph(includes: dict[str, set[str]]) -> dict[str, set[str]]:
    graph: dict[str, set[str]] = defaultdict(set)
    for name, included in includes.items():
        ours = {folder_of(header) for header in included if header in includes}
        graph[folder_of(name)] |= ours - {folder_of(name)}
    return graph


def all_includes(includes: dict[str, set[str]], name: str) -> set[str]:
    """What `name` includes, by way of our own headers too."""
    found: set[str] = set()
    left = [name]
    while left:
        for header in includes[left.pop()] - found:
            found.add(header)
            if header in includes:
                left.append(header)
    return found


def test_a_cycle_would_be_found():
    graph = folder_graph({"a/x.h": {"b/y.h"}, "b/testing/z.h": {"a/x.h"}, "b/y.h": set()})
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()


def test_folders_include_each_other_without_cycles():
    graph = folder_graph(sources())
    assert "server/jobs" in graph and "server/catalog" in graph["server/jobs"]
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("folder", sorted(FORBIDDEN))
def test_folders_do_not_see_what_they_must_not(folder):
    includes = sources()
    ours = [name for name in includes if folder_of(name) == folder]
    assert ours, f"no file in {folder}"
    seen = {
        (name, header)
        for name in ours
        for header in all_includes(includes, name)
        if header.startswith(FORBIDDEN[folder])
    }
    assert not seen


def test_every_folder_of_the_server_and_the_trainer_has_its_rule():
    folders = {folder_of(name) for name in sources()}
    ruled = {name for name in folders if name.startswith(("server", "trainer"))}
    assert ruled - set(FORBIDDEN) == {"trainer/worker"}
