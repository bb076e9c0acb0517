"""Clients that others generate from the description of the service: they compile, and ask a running one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from debian_packages import absent
from service_world import NEAR, TEXT, listening, world_in

from neardup_workers.doing.http.described.requests import description

pytestmark = [pytest.mark.long, pytest.mark.processes]
GENERATOR = "openapi-python-client==0.29.1"
# What the generator of Python takes only under other names: lines of JSON, and XML.
PYTHON = """
content_type_overrides: {application/x-ndjson: application/octet-stream, application/atom+xml: text/plain}
post_hooks: []
"""
PYTHON_CLIENT = """
import io, sys
from client import Client
from client.api.default import check, check_batch, cluster, document
from client.models import Document
from client.types import File
with Client(base_url=sys.argv[1]) as client:
    answer = check.sync(client=client, body=Document(id="a", text=sys.argv[2]))
    lines = File(payload=io.BytesIO(('{"id": "b", "text": "%s"}' % sys.argv[3]).encode()))
    batch = check_batch.sync_detailed(client=client, body=lines)
    found = document.sync(id="b", client=client)
    story = cluster.sync(cluster=answer.cluster, client=client)
    print(answer.status, batch.status_code.value, found.status, found.duplicate_of, story.size)
"""
NPM = ("openapi-typescript@7.13.0", "openapi-fetch@0.14.0", "typescript@5.9.3", "@types/node@20.19.0")
TYPESCRIPT_CLIENT = """
import createClient from 'openapi-fetch';
import type { paths } from './schema.js';
const [url, text, near] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url! });
const check = async (id: string, words: string) => {
  const { data, error } = await client.POST('/v1/check', { body: { id, text: words } });
  if (!data || !('added' in data)) throw new Error(error?.title);
  return data;
};
const first = await check('a', text!);
const second = await check('b', near!);
const { data } = await client.GET('/v1/clusters/{cluster}', { params: { path: { cluster: second.cluster! } } });
console.log(first.status, 200, second.status, second.duplicate_of, data!.size);
"""
CODEGEN = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
GO_CLIENT = """package main

import (
	"context"
	"fmt"
	"os"

	"example.org/client/api"
)

func main() {
	client, err := api.NewClientWithResponses(os.Args[1])
	if err != nil {
		panic(err)
	}
	check := func(id string, text string) *api.Answer {
		named := api.Document_Id{}
		if err := named.FromDocumentId0(id); err != nil {
			panic(err)
		}
		answer, err := client.CheckWithResponse(context.Background(), nil, api.Document{Id: named, Text: &text})
		if err != nil || answer.JSON200 == nil {
			panic(fmt.Sprint(err, answer))
		}
		return answer.JSON200
	}
	first, second := check("a", os.Args[2]), check("b", os.Args[3])
	story, err := client.ClusterWithResponse(context.Background(), *second.Cluster, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(first.Status, 200, second.Status, *second.DuplicateOf, story.JSON200.Size)
}
"""


def ran(folder: Path, *words: str, fetches: bool = False, **environment: str) -> str:
    """The output of a command; one that fetches and cannot is a skip."""
    given = {**os.environ, **environment}
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=300, env=given)
    if done.returncode and fetches:
        absent(f"{words[0]} cannot fetch: {(done.stdout + done.stderr)[-300:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def python(folder: Path) -> Callable[..., str]:
    """A client of openapi-python-client."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neardup" / GENERATOR
    if not cache.exists():
        ran(folder, sys.executable, "-m", "pip", "install", "-q", "--target", "made", GENERATOR, fetches=True)
        cache.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / "made", cache)
    (folder / "config.yml").write_text(PYTHON)
    words = (
        "generate",
        "--path",
        "openapi.json",
        "--output-path",
        "client",
        "--meta",
        "none",
        "--config",
        "config.yml",
    )
    said = ran(folder, sys.executable, "-m", "openapi_python_client", *words, PYTHONPATH=str(cache))
    assert "WARNING" not in said, said
    (folder / "main.py").write_text(PYTHON_CLIENT)
    return lambda *given: ran(folder, sys.executable, "main.py", *given)


def typescript(folder: Path) -> Callable[..., str]:
    """Types of openapi-typescript, in a client of openapi-fetch."""
    if not shutil.which("npm"):
        absent("there is no npm")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "client.ts").write_text(TYPESCRIPT_CLIENT)
    ran(folder, "npm", "install", "--silent", "--prefer-offline", "--no-audit", "--no-fund", *NPM, fetches=True)
    ran(folder, "npx", "openapi-typescript", "openapi.json", "-o", "schema.ts")
    ran(folder, "npx", "tsc", "--strict", "--module", "nodenext", "--target", "es2022", "client.ts")
    return lambda *given: ran(folder, "node", "client.js", *given)


def go(folder: Path) -> Callable[..., str]:
    """A client of oapi-codegen."""
    if not shutil.which("go"):
        absent("there is no go")
    (folder / "api").mkdir()
    (folder / "go.mod").write_text("module example.org/client\n\ngo 1.24\n")
    (folder / "main.go").write_text(GO_CLIENT)
    words = ("-generate", "types,client", "-package", "api", "-o", "api/client.go", "openapi.json")
    ran(folder, "go", "run", CODEGEN, *words, fetches=True)
    ran(folder, "go", "mod", "tidy", fetches=True)
    ran(folder, "go", "build", "-o", "main")
    return lambda *given: ran(folder, "./main", *given)


@pytest.mark.parametrize("language", [python, typescript, go])
def test_a_generated_client_compiles_and_asks_a_running_service(language, tmp_path):
    """A document, its near copy and their story come back as values of the types that the description gives."""
    (tmp_path / "openapi.json").write_text(json.dumps(description()))
    client = language(tmp_path)
    with world_in(tmp_path / "state") as world, listening(world.guarded) as (host, port):
        assert client(f"http://{host}:{port}", TEXT, NEAR).split() == ["original", "200", "duplicate", "a", "2"]
