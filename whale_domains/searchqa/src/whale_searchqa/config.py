"""The settings of the domain ``searchqa`` and of the verifier ``em``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from attrs import field, frozen
from attrs.validators import ge

from whale_core.config.paths import PathSetting
from whale_searchqa.retrieval.config import RetrieverConfig

AUTO = -1
HUB = "hub"
SIZES = {"weight": 960, "harness": 256, "selection": 256, "test": 256}  # where settings say AUTO
BENCHMARK_SIZES = {"weight": 18_946, "harness": 256, "selection": 256, "test": 700}


def _is_folder(text: str, path: str) -> bool:
    return bool(text) and text != HUB


@frozen
class Config:
    """Settings of the domain ``searchqa``. With neither questions nor benchmarks chosen, it asks
    about a bundled invented world."""

    recommended: ClassVar[Mapping[str, Any]] = {"verifier": {"name": "em"}}

    questions: Annotated[str, PathSetting()] = ""
    """A JSONL file of questions in FlashRAG columns: question, golden_answers, perhaps id and
    metadata. Its passages are domain.corpus."""
    benchmarks: Annotated[str, PathSetting(_is_folder)] = ""
    """`hub`: the seven published benchmarks from the Hugging Face hub; or a folder with a copy of
    them (nq/train.jsonl, …)."""
    revision: str = "5eb464920f16249636739594a12691f4ad4295f7"
    """The commit of RUC-NLPIR/FlashRAG_datasets that benchmarks=hub reads."""
    tuning: bool = False
    """Use the bundled tuning world, which shares no name with the other one."""
    corpus: Annotated[str, PathSetting()] = ""
    """A JSONL file of passages: id and contents, which is the quoted title, a line break and the
    text. Empty: the bundled passages, for the bundled questions only."""
    retriever: RetrieverConfig = field(factory=RetrieverConfig)
    """What answers searches."""
    hops: int = field(default=0, validator=ge(0))
    """Keep the questions whose metadata say that they take so many passages; 0: all."""
    weight: int = field(default=AUTO, validator=ge(AUTO))
    """Questions that weight steps take their prompts from; -1: 960, of the benchmarks 18946."""
    harness: int = field(default=AUTO, validator=ge(AUTO))
    """Questions on which candidate harnesses are scored; -1: 256."""
    selection: int = field(default=AUTO, validator=ge(AUTO))
    """Questions for choosing between phases; -1: 256."""
    test: int = field(default=AUTO, validator=ge(AUTO))
    """Questions of the final pass; -1: 256, of the benchmarks 700 (100 of each)."""
    split_seed: int = 42
    """Decides which question is in which split; the run's seed does not."""

    def split_sizes(self) -> Mapping[str, int]:
        """Return how many questions each split is to have."""
        default = BENCHMARK_SIZES if self.benchmarks else SIZES
        asked = {name: getattr(self, name) for name in default}
        return {name: default[name] if size == AUTO else size for name, size in asked.items()}


@frozen
class EmConfig:
    """The verifier ``em`` has nothing to set."""
