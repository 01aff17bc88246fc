"""Make the bundled world: an invented corpus and questions whose answers stand nowhere else.

    python whale_domains/searchqa/tools/generate_world.py --seed 21 --clusters 200 --out world
    python whale_domains/searchqa/tools/generate_world.py --seed 22 --clusters 80 --exclude world \
        --out tuning

A world is made of clusters: a town, two people born there, and two works, one by each. Nothing in a
cluster refers to another one, and no name is used twice, so that splits which keep clusters whole
share no entity. Each entity has one passage. A one-hop question can be answered from the passage of
the entity it names. A two-hop question names an entity whose passage only leads to the right one.

The same command always writes the same rows: ``OUT/corpus.jsonl.gz`` (columns ``id`` and
``contents``, as in wiki-18), ``OUT/questions.jsonl.gz`` (columns ``id``, ``question``,
``golden_answers`` and ``metadata``, as in FlashRAG) and, beside ``OUT``, ``manifest.json``.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field, frozen

from whale_core.keys import content_hash, generator


def words(text: str) -> tuple[str, ...]:
    """Return the words of ``text``."""
    return tuple(text.split())


FIRST_NAMES = words(
    "Ada Agnes Albert Alma Anton Arthur Beatrix Bernard Bruno Clara Conrad Cora Daniel Edith Edgar "
    "Elsa Emil Ernest Esther Felix Flora Frida Gerard Greta Gustav Hanna Harold Hector Helena "
    "Henry Hugo Ida Irene Isaac Ivan Jacob Judith Julia Karl Laura Leon Lydia Magnus Marcus Marta "
    "Martin Matilda Maurice Nora Oscar Otto Paula Peter Philip Rosa Rudolf Ruth Samuel Simon "
    "Sofia Stella Theodor Thomas Ursula Vera Victor Walter Wilma"
)
ONSETS = words("b br c cr d dr f fl g gr h j k kl l m n p pr qu r s st t tr v w z")
VOWELS = words("a e i o u ae ei ia oa")
CODAS = words("l m n r s nd lm rk rn st th x ll ss")
TOWN_ENDINGS = words("ford wick stead ham mouth dale burg haven")
RIVER_ENDINGS = words("a e en ow el")
SURNAME_ENDINGS = words("an er in ov ey ard ick ell")
ADJECTIVES = words(
    "Amber Ancient Ashen Bitter Blue Borrowed Brazen Broken Burning Copper Crimson Crooked Distant "
    "Drowned Empty Endless Faded Fallen Forgotten Frozen Gilded Golden Green Grey Hidden Hollow "
    "Iron Ivory Last Little Lonely Lost Marble Midnight Painted Pale Paper Patient Quiet Red "
    "Restless Sacred Scarlet Second Secret Silent Silver Sleeping Stolen Stone Sunken Velvet "
    "Violet Wandering White Wild Winter Wooden"
)
NOUNS = words(
    "Anchor Arrow Balcony Bell Bridge Candle Carriage Castle Clock Compass Crown Curtain Desert "
    "Doorway Feather Ferry Fountain Garden Gate Harbour Harvest Island Journey Kingdom Ladder "
    "Lantern Letter Lighthouse Meadow Mill Mirror Mountain Nightingale Orchard Orchid Palace "
    "Pilgrim Prophet Raven Ribbon Sailor Shadow Shepherd Staircase Storm Stranger Tailor Threshold "
    "Thunder Tower Treasure Valley Violin Voyage Wanderer Watchman Weaver Well Window"
)
# profession: (kind of work, verb of its maker, verb of its appearance)
PROFESSIONS = {
    "novelist": ("novel", "wrote", "published"),
    "playwright": ("play", "wrote", "performed"),
    "composer": ("opera", "composed", "performed"),
    "painter": ("painting", "painted", "shown"),
    "film director": ("film", "directed", "shown"),
    "poet": ("poem", "wrote", "printed"),
    "sculptor": ("statue", "carved", "unveiled"),
}
SUBJECTS = words(
    "astronomy botany chemistry geology geometry grammar history law logic mathematics medicine "
    "mechanics optics philosophy physics rhetoric theology zoology"
)
INSTRUMENTS = words(
    "accordion banjo bassoon bugle cello clarinet cornet flute guitar harp horn lute mandolin oboe "
    "organ piano trombone trumpet tuba viola violin zither"
)
PRODUCTS = words(
    "apples barrels beer bells bread bricks butter candles carpets cheese cherries clocks coal "
    "glass gloves hats honey ink lace leather linen marble mustard needles paper pears pottery "
    "ropes salt silk soap steel tiles toys violets wine wool"
)


@define
class Names:
    """Deals out invented names, none twice, none of ``taken``."""

    rng: np.random.Generator
    taken: set[str] = field(factory=set)

    def syllable(self) -> str:
        """Return a random onset and vowel."""
        return self.pick(ONSETS) + self.pick(VOWELS)

    def pick(self, choices: Sequence[str]) -> str:
        """Return a random choice."""
        return choices[int(self.rng.integers(len(choices)))]

    def fresh(self, endings: Sequence[str]) -> str:
        """Return a new one-word name."""
        while True:
            name = (self.syllable() + self.pick(CODAS) + self.pick(endings)).capitalize()
            if name not in self.taken:
                self.taken.add(name)
                return name

    def title(self) -> str:
        """Return the title of a new work."""
        while True:
            name = f"The {self.pick(ADJECTIVES)} {self.pick(NOUNS)}"
            if name not in self.taken:
                self.taken.add(name)
                return name

    def year(self, low: int, high: int) -> int:
        """Return a random year, ``low`` to ``high``."""
        return int(self.rng.integers(low, high + 1))


@frozen
class Question:
    """A question, its accepted answers, the fact it asks for and how many passages it takes."""

    text: str
    answers: tuple[str, ...]
    relation: str
    hops: int
    entities: tuple[str, ...]


@frozen
class Cluster:
    """The passages (title and text) and questions of one town and its people."""

    name: str
    passages: tuple[tuple[str, str], ...]
    questions: tuple[Question, ...]


@frozen
class Person:
    """A person and the one work of theirs."""

    first: str
    last: str
    profession: str
    born: int
    subject: str
    studied: int
    instrument: str
    title: str
    appeared: int

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first} {self.last}"

    @property
    def names(self) -> tuple[str, ...]:
        """The full name, and the last name, which nobody else has."""
        return self.name, self.last


def person(names: Names) -> Person:
    """Return a new person."""
    born = names.year(1780, 1940)
    return Person(
        first=names.pick(FIRST_NAMES),
        last=names.fresh(SURNAME_ENDINGS),
        profession=names.pick(tuple(PROFESSIONS)),
        born=born,
        subject=names.pick(SUBJECTS),
        studied=born + names.year(18, 24),
        instrument=names.pick(INSTRUMENTS),
        title=names.title(),
        appeared=born + names.year(26, 60),
    )


def cluster(names: Names) -> Cluster:
    """Return a new town with two people and their works."""
    town, river = names.fresh(TOWN_ENDINGS), names.fresh(RIVER_ENDINGS)
    founded, rebuilt = names.year(900, 1500), names.year(1520, 1760)
    product = names.pick(PRODUCTS)
    passages = [
        (
            town,
            f"{town} is a town on the river {river}. It was founded in {founded} and rebuilt after "
            f"a fire in {rebuilt}. It is known for its {product}.",
        )
    ]
    of_town = (town,)
    questions = [
        Question(f"Which river flows through {town}?", (river,), "river", 1, of_town),
        Question(f"In what year was {town} founded?", (str(founded),), "founded", 1, of_town),
        Question(f"What is {town} known for?", (product,), "product", 1, of_town),
    ]
    for one in (person(names), person(names)):
        passages += told(one, town)
        questions += asked(one, town, river, founded)
    return Cluster(town, tuple(passages), tuple(questions))


def told(one: Person, town: str) -> list[tuple[str, str]]:
    """Return the passages of a person and of the work. The person's does not name the work."""
    work, _, appears = PROFESSIONS[one.profession]
    return [
        (
            one.name,
            f"{one.name} was a {one.profession}, born in {town} in {one.born}. {one.last} studied "
            f"{one.subject} from {one.studied} and played the {one.instrument}.",
        ),
        (
            one.title,
            f"{one.title} is a {work} by {one.name}. It was first {appears} in {one.appeared}.",
        ),
    ]


def asked(one: Person, town: str, river: str, founded: int) -> list[Question]:
    """Return the questions about a person and the work."""
    work, makes, appears = PROFESSIONS[one.profession]
    the_work = f"the {work} {one.title}"
    maker = f"the {one.profession} who {makes} {one.title}"
    itself, both = (one.title,), (one.title, one.name)
    home = (one.name, town)
    return [
        Question(f"In which town was {one.name} born?", (town,), "birthplace", 1, home[:1]),
        Question(f"In what year was {one.name} born?", (str(one.born),), "born", 1, home[:1]),
        Question(f"What did {one.name} study?", (one.subject,), "subject", 1, home[:1]),
        Question(
            f"Which instrument did {one.name} play?", (one.instrument,), "instrument", 1, home[:1]
        ),
        Question(f"Who {makes} {the_work}?", one.names, "maker", 1, itself),
        Question(
            f"In what year was {the_work} first {appears}?",
            (str(one.appeared),),
            "appeared",
            1,
            itself,
        ),
        Question(f"In which town was {maker} born?", (town,), "birthplace", 2, both),
        Question(f"In what year was {maker} born?", (str(one.born),), "born", 2, both),
        Question(f"Which instrument did {maker} play?", (one.instrument,), "instrument", 2, both),
        Question(
            f"Which river flows through the town where {one.name} was born?",
            (river,),
            "river",
            2,
            home,
        ),
        Question(
            f"In what year was the town where {one.name} was born founded?",
            (str(founded),),
            "founded",
            2,
            home,
        ),
    ]


def world(seed: int, clusters: int, taken: set[str]) -> list[Cluster]:
    """Return the clusters of the world that ``seed`` names, none using a name of ``taken``."""
    used = set(taken)
    return [cluster(Names(generator(seed, "world", index), used)) for index in range(clusters)]


def corpus_rows(clusters: Sequence[Cluster]) -> Iterator[Mapping[str, Any]]:
    """Yield the passages in an order that tells nothing of the clusters."""
    passages = [passage for each in clusters for passage in each.passages]
    order = generator("world corpus").permutation(len(passages)).tolist()
    for number, index in enumerate(order):
        title, text = passages[index]
        yield {"id": str(number), "contents": f'"{title}"\n{text}'}


def question_rows(clusters: Sequence[Cluster]) -> Iterator[Mapping[str, Any]]:
    """Yield the questions, cluster by cluster."""
    for each in clusters:
        for question in each.questions:
            yield {
                "id": content_hash(question.text, length=12),
                "question": question.text,
                "golden_answers": list(question.answers),
                "metadata": {
                    "group": each.name,
                    "hops": question.hops,
                    "relation": question.relation,
                    "entities": list(question.entities),
                },
            }


def names_in(folder: Path) -> set[str]:
    """Return the names that a world already has."""
    text = gzip.decompress((folder / "corpus.jsonl.gz").read_bytes()).decode()
    contents = [json.loads(line)["contents"] for line in text.splitlines()]
    titles = {each.split("\n")[0].strip('"') for each in contents}
    rivers = {
        each.split("on the river ")[1].split(".")[0] for each in contents if " river " in each
    }
    return titles | rivers | {title.split()[-1] for title in titles if not title.startswith("The ")}


def write(folder: Path, seed: int, clusters: Sequence[Cluster]) -> None:
    """Write both files, and their entry in the manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    entry: dict[str, Any] = {"seed": seed, "clusters": len(clusters)}
    for name, rows in (
        ("corpus", list(corpus_rows(clusters))),
        ("questions", list(question_rows(clusters))),
    ):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        entry[name] = {"rows": len(rows), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    path = folder.with_name("manifest.json")
    manifest = json.loads(path.read_text()) if path.exists() else {}
    manifest[folder.name] = entry
    path.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")


def main() -> None:
    """Parse the command line and write the world it asks for."""
    parser = argparse.ArgumentParser(description="Make an invented world to ask questions about.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--clusters", type=int, required=True)
    parser.add_argument("--exclude", type=Path, help="folder of a world whose names are left out")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    args = parser.parse_args()
    taken = names_in(args.exclude) if args.exclude else set()
    write(args.out, args.seed, world(args.seed, args.clusters, taken))


if __name__ == "__main__":
    main()
