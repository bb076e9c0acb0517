"""Similar buyers and similar items: what to recommend to a buyer, from who bought what.

A buyer is the set of the items bought, an item the set of its buyers, and Jaccard similarity says which are alike. A
buyer is offered what similar buyers have, or what is similar to the items of the buyer: the score of an item is the sum
of the similarities that speak for it. First three buyers of four items; then buyers who have no item in common, by
groups of items; then the baskets of a food store, whose similar pairs are compared with the known ones; at last
ratings, which make an item count as often as it has stars.

Usage: python docs/examples/basket.py [DATA], the folder that holds the set itemsets_fimi. Without it, and where there
is none next to the project, the store has baskets that are drawn at random.

Source: Mining of Massive Datasets, 3.1.1 and 3.1.3; 3.9 for the index of prefixes, which misses no pair.
"""

from __future__ import annotations

import csv
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from neardup import Config, Deduplicator, Document

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
Sets = Mapping[str, Sequence[str]]
Near = Mapping[str, Mapping[str, float]]

TOY: Sets = {"B1": ["A", "B"], "B2": ["A", "B", "D"], "B3": ["A", "C", "D"]}
# Buyers of films. C1 and C2 have no film in common, but C3 and C4 have films of both.
FILMS: Sets = {
    "C1": ["Comet 1", "Comet 3"],
    "C2": ["Comet 2", "Comet 4"],
    "C3": ["Comet 1", "Comet 2", "Comet 4"],
    "C4": ["Comet 2", "Comet 3", "Comet 4"],
    "C5": ["Harvest 1", "Harvest 2"],
    "C6": ["Harvest 1", "Harvest 2", "Harvest 3"],
}
EXACT = Config(shingles="tokens", scheme="prefix", threshold=0.5)
# A signature in so many bands finds pairs of .5 as well, with the recall of the settings, .95 at the threshold.
SIGNED = Config(shingles="tokens", verify="exact", threshold=0.5, rows_max=512)


def similar(sets: Sets, config: Config) -> Near:
    """The similar sets of each set. Equal ones are linked once by the stream, and stand for each other here."""
    equal: dict[frozenset[str], list[str]] = defaultdict(list)
    for name, elements in sets.items():
        equal[frozenset(elements)].append(name)
    near: dict[str, dict[str, float]] = defaultdict(dict)
    for pair in Deduplicator(config).process(Document(name, tokens=elements) for name, elements in sets.items()):
        for a in equal[frozenset(sets[pair.older])]:
            for b in equal[frozenset(sets[pair.newer])]:
                if a != b:
                    near[a][b] = near[b][a] = pair.similarity
    return near


def inverted(sets: Sets) -> Sets:
    """The buyers of each item, from the items of each buyer; or the other way round."""
    out: dict[str, list[str]] = defaultdict(list)
    for name, elements in sets.items():
        for element in elements:
            out[element].append(name)
    return out


def best(votes: Iterable[tuple[str, float]], own: Sequence[str]) -> list[tuple[str, float]]:
    """Items that the buyer does not have, by the sum of their votes; the best first, ties by name."""
    scores: dict[str, float] = defaultdict(float)
    for item, similarity in votes:
        if item not in own:
            scores[item] += similarity
    return sorted(scores.items(), key=lambda score: (-score[1], score[0]))


def by_buyers(bought: Sets, near_buyers: Near, buyer: str) -> list[tuple[str, float]]:
    """What similar buyers have."""
    near = near_buyers.get(buyer, {}).items()
    return best(((item, similarity) for other, similarity in near for item in bought[other]), bought[buyer])


def by_items(bought: Sets, near_items: Near, buyer: str) -> list[tuple[str, float]]:
    """What is similar to the items of the buyer."""
    votes = (vote for item in bought[buyer] for vote in near_items.get(item, {}).items())
    return best(votes, bought[buyer])


def pairs_of(near: Near) -> set[tuple[str, str]]:
    """Each pair of names once."""
    return {(a, b) for a, others in near.items() for b in others if a < b}


def shown(scores: list[tuple[str, float]]) -> str:
    """The first three items with their scores."""
    return ", ".join(f"{item} ({score:.2f})" for item, score in scores[:3]) or "nothing"


def toy() -> None:
    """Print the similarities of three buyers and of their items, and what the first is offered."""
    config = EXACT.model_copy(update={"threshold": 0.2})
    near_buyers, near_items = similar(TOY, config), similar(inverted(TOY), config)
    for near in (near_buyers, near_items):
        print("  ".join(f"{a}-{b} {near[a][b]:.3f}" for a, b in sorted(pairs_of(near))))
    print(f"B1 is offered, by buyers: {shown(by_buyers(TOY, near_buyers, 'B1'))}")
    print(f"B1 is offered, by items:  {shown(by_items(TOY, near_items, 'B1'))}")


def grouped(sets: Sets, threshold: float) -> Sets:
    """The same sets of groups in place of elements: elements that stand in similar sets are one group, named by its
    first element."""
    near = similar(inverted(sets), EXACT.model_copy(update={"threshold": threshold}))
    group = {element: element for elements in sets.values() for element in elements}
    for a, b in sorted(pairs_of(near)):
        first, second = sorted((group[a], group[b]))
        group = {element: first if name == second else name for element, name in group.items()}
    return {name: sorted({group[element] for element in elements}) for name, elements in sets.items()}


def groups() -> None:
    """Print which buyers are alike by their films, and by groups of films that the same buyers have."""
    sets = FILMS
    for what in ("films", "groups of films"):
        near = pairs_of(similar(sets, EXACT))
        print(f"alike by {what}: {'  '.join(f'{a}-{b}' for a, b in sorted(near))}")
        sets = grouped(sets, 1 / 4)


def real_store(folder: Path) -> tuple[Sets, set[tuple[str, str]]]:
    """The baskets of the data set, and its pairs of a similarity of .5 or more."""
    lines = (folder / "foodmart.dat").read_text(encoding="utf-8").splitlines()
    with (folder / "foodmart_pairs_j050.csv").open(encoding="utf-8") as file:
        known = {(min(row["a"], row["b"]), max(row["a"], row["b"])) for row in csv.DictReader(file)}
    return {str(number): line.split() for number, line in enumerate(lines)}, known


def drawn_store() -> tuple[Sets, set[tuple[str, str]]]:
    """Baskets that are drawn at random, some as copies with one item changed, and their pairs by comparing all."""
    rng = random.Random(1)
    baskets = [rng.sample(range(1, 200), rng.randint(4, 10)) for _ in range(300)]
    baskets += [[*rng.choice(baskets)[:-1], rng.randint(200, 300)] for _ in range(100)]
    bought = {str(number): [str(item) for item in basket] for number, basket in enumerate(baskets)}
    sets = {name: set(items) for name, items in bought.items()}
    pairs = combinations(sorted(sets), 2)
    return bought, {(a, b) for a, b in pairs if 3 * len(sets[a] & sets[b]) >= len(sets[a]) + len(sets[b])}


def store(bought: Sets, known: set[tuple[str, str]]) -> None:
    """Print how the pairs of baskets compare with the known ones, and what some baskets are offered."""
    near_buyers = similar(bought, EXACT)
    print(f"\n{len(bought)} baskets, {len(known)} known pairs of a similarity of .5 or more")
    for name, near in (("prefix", near_buyers), ("signatures", similar(bought, SIGNED))):
        found = pairs_of(near)
        print(f"{name}: {len(found & known)} of them found, {len(found - known)} others")
    near_items = similar(inverted(bought), Config(shingles="tokens", scheme="prefix", threshold=0.05))
    larger = sorted(near_buyers, key=lambda basket: (-len(bought[basket]), int(basket)))
    for basket in [basket for basket in larger if by_buyers(bought, near_buyers, basket)][:3]:
        print(f"basket {basket} of {', '.join(bought[basket])}")
        print(f"  by buyers: {shown(by_buyers(bought, near_buyers, basket))}")
        print(f"  by items:  {shown(by_items(bought, near_items, basket))}")


def main(arguments: list[str]) -> None:
    """Print the cases."""
    folder = (Path(arguments[0]) if arguments else DATA) / "itemsets_fimi"
    if arguments and not folder.is_dir():
        sys.exit(f"{folder} is no folder: name the folder that holds the set itemsets_fimi")
    toy()
    print()
    groups()
    store(*(real_store(folder) if folder.is_dir() else drawn_store()))
    stars = Config(shingles="tokens", measure="jaccard_bag", scheme="prefix:ratings=stars", threshold=0.5)
    ratings = [Document("C1", tokens={"a": 3, "b": 1}), Document("C2", tokens={"a": 2, "b": 2, "c": 1})]
    print("\nstars of two customers as bags:", *Deduplicator(stars).process(ratings))


if __name__ == "__main__":
    main(sys.argv[1:])
