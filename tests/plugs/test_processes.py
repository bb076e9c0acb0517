"""Other programs run the signer in processes of theirs: the blocks of ``docs/PLUGS.md`` as they stand there."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
from pathlib import Path

import pytest
from cases import CASES
from command import clean_environment
from plug_blocks import run_block

from neardup import Config, Document, Signer

pytestmark = pytest.mark.processes
POOL = """
import json
from multiprocessing import get_context
from neardup import Config, Document, Matcher, Signer

MAIN
    texts = [Document(one["id"], one["text"]) for one in map(json.loads, open("wire.jsonl", encoding="utf-8"))]
    with get_context("spawn").Pool(2) as pool:
        parts, matcher = pool.map(Signer(Config()).sign, [texts[:50], texts[50:]]), Matcher(Config())
    matcher.table.begin()
    print(sum(len(matcher.match(signed.batch).pairs()) for signed in parts), "pairs")
""".replace("MAIN", 'if __name__ == "__main__":')  # a line that begins so makes a script of this file
RAY = """
import os, ray
from neardup import sign_table

MAIN
    ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1")
    rows = ray.data.read_json(os.path.abspath("wire.jsonl"))
    keys = rows.map_batches(sign_table, batch_format="pyarrow", batch_size=50).to_pandas()["band_1"]
    print(len(keys), "rows,", keys.nunique(), "values of the first key")
    ray.shutdown()
""".replace("MAIN", 'if __name__ == "__main__":')


@pytest.mark.parametrize(
    ("package", "printed"),
    [
        ("datasets", "110 rows, 87 values of the first key, 56 kept"),
        ("dask", "93 pairs"),
    ],
)
def test_a_block_prints_what_one_process_finds(package: str, printed: str, tmp_path: Path) -> None:
    """Two processes sign parts of a file: the pairs and verdicts are those of the file in one process."""
    assert run_block(package, tmp_path).splitlines()[-1] == printed


def test_a_pool_of_spawned_processes_signs(tmp_path: Path) -> None:
    """Of the standard library: they import the program again, and get the signer by its pickle."""
    assert run_block("multiprocessing", tmp_path, POOL).strip() == "93 pairs"


def test_batches_of_ray_data_are_signed(tmp_path: Path) -> None:
    """In its tasks."""
    assert run_block("ray", tmp_path, RAY).splitlines()[-1] == "110 rows, 87 values of the first key"


@pytest.mark.parametrize("name", CASES)
def test_a_signer_and_what_it_signed_can_be_copied(name: str) -> None:
    """Of every scheme. The copy signs the same; a batch stays read-only, so that it needs no other kernels."""
    config, documents = CASES[name].config(), CASES[name].stream(random.Random(1), 40)
    signer = Signer(config, 4_000)
    signed = signer.sign(documents)
    for copied in (lambda one: pickle.loads(pickle.dumps(one)), copy.deepcopy, copy.copy):
        assert copied(config) == config
        other = copied(signer).sign(documents)
        assert other.refusals == signed.refusals
        for batch in (other.batch, copied(signed).batch):
            assert [column.tobytes() for column in batch] == [column.tobytes() for column in signed.batch]
            assert [column.flags.writeable for column in batch] == [column.flags.writeable for column in signed.batch]


def test_a_copied_signer_of_questions_asks() -> None:
    """A document that is too long is scaled by it, and refused by one that adds."""
    config = Config(scheme="hyperplane_dot:dimension=3,norm_max=2.0", threshold=0.3)
    long = [Document("long", vector=[1e6, 1.0, 2.0])]
    for queries in (False, True):
        signer = Signer(config, queries=queries)
        assert copy.deepcopy(signer).sign(long).batch.size == signer.sign(long).batch.size == int(queries)


def test_no_other_program_is_imported_before_it_is_used() -> None:
    """Whatever is installed: not by the library, nor by the commands that read and write files."""
    code = (
        "import sys, neardup; neardup.Signer\n"
        "from neardup_workers.running.cli import app\n"
        "from neardup_workers.running.commands import agents, run\n"
        "from neardup_workers.running.commands.dedup import command\n"
        "print(*{'dask', 'datasets', 'ray', 'pyspark', 'obstore', 'mcp', 'scrapy', 'pyarrow'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], env=clean_environment(), capture_output=True, check=True)
    assert done.stdout.strip() == b""
