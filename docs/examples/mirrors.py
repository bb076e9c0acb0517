"""Mirror hosts found by their URLs alone, and what folding them does to the graph of links.

A host is the set of positional bigrams of the paths that it serves; hosts with similar sets are taken for mirrors. Then
every link to a mirror is made one to the host that stands for it. A page and its copy on a mirror link to the same
pages at different hosts, so by their links they have little in common; with the targets folded they are nearly the
same, and the stream finds them by their links.

Folding cascades. Two pages that are found to be copies become one node of the graph, so the pages that link to them
become more similar, and a further pass finds those. The passes end when one changes nothing. This is shown from hosts
whose URLs are nearly equal, which are two mirrors in three.

Trees and links are real: each package of a folder of Python (its standard library) is a site, each module a page, each
import a link. A site has two mirrors, each of which lacks 3% of the pages, and an excerpt, which serves half of them
and is no mirror. A link within a site stays on its host; one to another site goes to it or to either of its mirrors;
links to pages that are not served are not in the graph.

Usage: python docs/examples/mirrors.py [DATA], a folder of Python packages.

Source: Chakrabarti, "Mining the Web", 2003, similarity search: shingled URLs, contraction of the graph.
"""

from __future__ import annotations

import re
import sys
import sysconfig
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import combinations
from pathlib import Path
from statistics import mean

from neardup import Config, Deduplicator, Document
from neardup.pairs.evaluation.judging import Contents, confusion

LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "__pycache__"}  # tests, and what was installed
STRICT = 0.97  # similarity of the URLs of hosts from which the cascade begins
COPIES_MIN = 0.5  # similarity of the links of two pages of one path that are copies
PAGES_MIN, LINKS_MIN = 5, 3  # of a site that is served, of a page that is compared
IMPORT = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)
Module = tuple[str, ...]
Page = tuple[str, str]  # host, path
Graph = dict[Page, set[Page]]
Nodes = dict[Page, str]  # a page and its node: the page that stands for it, as host/path


def tree(folder: Path) -> dict[str, set[str]]:
    """The paths of the modules of a folder, each with those that it imports."""
    files = {file.relative_to(folder).with_suffix("").parts: file for file in folder.rglob("*.py")}
    out = {}
    for module in sorted(module for module in files if not LEFT_OUT & set(module)):
        names = IMPORT.findall(files[module].read_text(encoding="utf-8", errors="replace"))
        found = {resolved(name, module, files.keys()) for name in names} - {(), module}
        out["/".join(module) + ".py"] = {"/".join(other) + ".py" for other in found}
    return out


def resolved(name: str, module: Module, modules: Collection[Module]) -> Module:
    """What an import in ``module`` names, or the package it stands in; nothing if that is not in the folder."""
    dots = len(name) - len(name.lstrip("."))
    parts = (*(module[:-dots] if dots else ()), *filter(None, name.split(".")))
    while parts and parts not in modules and (*parts, "__init__") not in modules:
        parts = parts[:-1]
    return parts if not parts or parts in modules else (*parts, "__init__")


def site_of(path: str) -> str:
    """The package that a path begins with; modules outside packages are a site of their own."""
    return path.split("/")[0] if "/" in path else "modules"


def coin(*texts: str) -> int:
    """A number below 100, the same in each run."""
    return zlib.crc32("".join(texts).encode()) % 100


def hosts(paths: Collection[str]) -> dict[str, list[str]]:
    """What each host serves. Site s has the hosts s:0, which is complete, its mirrors s:1 and s:2, and s:part."""
    sites: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        sites[site_of(path)].append(path)
    out = {}
    for site, pages in sites.items():
        if len(pages) >= PAGES_MIN:
            out[f"{site}:0"] = pages
            for host in (f"{site}:1", f"{site}:2"):
                out[host] = [path for path in pages if coin(host, path) >= 3]
            out[f"{site}:part"] = [path for path in pages if coin(path) < 50]
    return out


def links(served: dict[str, list[str]], imports: dict[str, set[str]]) -> Graph:
    """The links of the pages that have ``LINKS_MIN`` of them."""
    pages = {(host, path): site_of(path) for host, paths in served.items() for path in paths}
    graph = {}
    for (host, path), site in pages.items():
        others = {target: f"{site_of(target)}:{coin(host, path, target) % 3}" for target in imports[path]}
        graph[host, path] = {
            (host if site_of(to) == site else other, to) for to, other in others.items()
        } & pages.keys()
    return {page: targets for page, targets in graph.items() if len(targets) >= LINKS_MIN}


def joined(documents: list[Document], config: Config) -> Contents:
    """Documents joined by the pairs that the stream finds among them."""
    return Contents(pair[:2] for pair in Deduplicator(config).process(documents))


def mirrors(served: dict[str, list[str]], threshold: float = 0.8) -> Contents:
    """Hosts joined where the paths that they serve are alike."""
    documents = [Document(host, "\n".join(f"/{path}" for path in paths)) for host, paths in served.items()]
    return joined(documents, Config(shingles="urls", threshold=threshold, verify="exact"))


def folded(graph: Graph, found: Contents) -> Graph:
    """The same pages, with links to the hosts that stand for the mirrors."""
    return {page: {(found.of(host), path) for host, path in targets} for page, targets in graph.items()}


def cascade(graph: Graph, found: Contents) -> Iterator[tuple[Graph, Nodes]]:
    """Fold pages until a pass changes nothing. Yield before each pass the links and the nodes of all pages.

    A pass folds pages of one path whose links, as folded before, have a Jaccard similarity of ``COPIES_MIN``. It only
    joins nodes, so there are fewer passes than pages.
    """
    pages = set(graph).union(*graph.values())
    first = {page: f"{found.of(page[0])}/{page[1]}" for page in pages}
    joins: list[tuple[str, str]] = []
    while True:
        node = Contents(joins).of
        nodes = {page: node(name) for page, name in first.items()}
        links = {page: {(nodes[to], "") for to in targets} for page, targets in graph.items()}
        yield links, nodes
        new = [(nodes[a], nodes[b]) for a, b in copies_by_links(links) if nodes[a] != nodes[b]]
        if not new:
            return
        joins += new


def copies_by_links(graph: Graph) -> Iterator[tuple[Page, Page]]:
    """Pages of one path with similar links: the stream proposes them, their links decide."""
    proposed = joined(as_sets(graph), Config(shingles="tokens", scheme="prefix", threshold=COPIES_MIN)).of
    groups: dict[tuple[str, str], list[Page]] = defaultdict(list)
    for page in graph:
        groups[proposed("/".join(page)), page[1]].append(page)
    for pages in groups.values():
        yield from ((a, b) for a, b in combinations(pages, 2) if similarity(graph[a], graph[b]) >= COPIES_MIN)


def similarity(a: set[Page], b: set[Page]) -> float:
    """The Jaccard similarity of two sets of links, at least one of which is not empty."""
    return len(a & b) / len(a | b)


def as_sets(graph: Graph) -> list[Document]:
    """Each page as the set of its links."""
    return [Document("/".join(page), tokens=list(map("/".join, targets))) for page, targets in graph.items()]


def alike(graph: Graph, pairs: list[tuple[Page, Page]]) -> tuple[float, float]:
    """Return the mean Jaccard similarity of the links of pairs of pages, and which fraction the stream joins."""
    same = joined(as_sets(graph), Config(shingles="tokens", scheme="prefix", threshold=0.8)).of
    return mean(similarity(graph[a], graph[b]) for a, b in pairs), mean(
        same("/".join(a)) == same("/".join(b)) for a, b in pairs
    )


def main(arguments: list[str]) -> None:
    """Print the mirrors found, and how alike pages and their copies are before and after folding."""
    folder = Path(arguments[0] if arguments else sysconfig.get_path("stdlib"))
    imports = tree(folder)
    served = hosts(imports)
    if not served:
        sys.exit(f"{folder} holds no package of {PAGES_MIN} modules: name a folder of Python packages")
    whole = [host for host in served if not host.endswith(":part")]
    true = [(a, b) for a, b in combinations(whole, 2) if a.split(":")[0] == b.split(":")[0]]
    found = mirrors(served)
    verdict = confusion([(a, b) for a, b in combinations(served, 2) if found.of(a) == found.of(b)], true)
    print(f"{len(served)} hosts, {len(true)} pairs of mirrors")
    print(f"mirrors by their URLs: precision {verdict.precision().value:.3f}, recall {verdict.recall().value:.3f}")
    graph = links(served, imports)
    copies = [((a, path), (b, path)) for a, b in true for path in served[a] if {(a, path), (b, path)} <= graph.keys()]
    print(f"{len(graph)} pages with {LINKS_MIN} links or more, {len(copies)} pairs of copies on mirrors\n")
    print("links    mean similarity of copies   copies joined by the stream")
    for name, one in (("as they are", graph), ("folded", folded(graph, found))):
        average, fraction = alike(one, copies)
        print(f"{name:<12}{average:>22.3f}{fraction:>30.3f}")
    strict = mirrors(served, STRICT)
    known = sum(strict.of(a) == strict.of(b) for a, b in true)
    print(f"\ncascade from the {known} pairs of mirrors whose URLs have a similarity of {STRICT} or more")
    print("pass    nodes   mean similarity of copies   copies that are one node")
    for number, (one, nodes) in enumerate(cascade(graph, strict)):
        average = mean(similarity(one[a], one[b]) for a, b in copies)
        fraction = mean(nodes[a] == nodes[b] for a, b in copies)
        print(f"{number:<4}{len(set(nodes.values())):>9}{average:>28.3f}{fraction:>27.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
