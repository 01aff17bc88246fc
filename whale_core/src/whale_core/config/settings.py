"""The core's own settings: everything that is not a plugin's."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import field, frozen
from attrs.validators import and_, ge, gt, in_, le, lt, optional

from whale_core.config.later import LATER
from whale_core.config.paths import PathSetting

HARNESS_FILE = ".py"
AXES = ("rollouts", "tokens", "seconds", "weight_step")


def _is_harness_file(text: str, path: str) -> bool:
    return text.endswith(HARNESS_FILE)


def _at_most_examples(settings: SearchSettings, attribute: Any, value: int | None) -> None:
    if value is not None and value > settings.examples:
        raise ValueError(f"'shown' must be <= search.examples ({settings.examples}): {value}")


@frozen
class RolloutSettings:
    """How the policy is decoded, in every phase and evaluation, and where harnesses run."""

    temperature: float = field(default=1.0, validator=gt(0.0))
    """Divides the logits before sampling."""
    top_k: int = field(default=20, validator=ge(1))
    """Only this many of the likeliest tokens can be sampled."""
    top_p: float = field(default=1.0, validator=and_(gt(0.0), le(1.0)))
    """Only the likeliest tokens that together have this probability can be sampled."""
    max_not_scored: float = field(default=0.1, validator=and_(ge(0.0), lt(1.0)))
    """The share of rollouts without a score above which a batch stops the run."""
    reply_seconds: float = field(default=3600.0, validator=gt(0.0))
    """How long the engine may take for one batch before it counts as hung: a backstop."""
    thinking: bool | None = field(default=None, metadata=LATER)
    """Switches the thinking of a chat template that knows `enable_thinking` on or off; null leaves
    it to the template."""
    jail: str = field(default="auto", validator=in_(("auto", "bubblewrap", "process")))
    """Where harnesses run; `auto` is bubblewrap, or where that does not start the weaker restricted
    process, which is refused to a proposer that writes code."""


@frozen
class SearchSettings:
    """How candidate harnesses are scored."""

    examples: int = field(default=64, validator=ge(1))
    """Examples of the harness split on which each candidate is scored."""
    draws: int = field(default=1, validator=ge(1))
    """Rollouts of each example."""
    shown: int | None = field(
        default=None, validator=(optional(ge(0)), _at_most_examples), metadata=LATER
    )
    """How many of these examples proposers see the traces of; the others are only scored. Null is
    half of them, rounded up."""
    redraw: bool = field(default=False, metadata=LATER)
    """Whether each harness phase is scored on another sample of the harness split. What proposers
    see the traces of then comes from one part of the split in all phases, the rest from the
    other."""


@frozen
class SelectionSettings:
    """How much of the selection split each evaluation between phases uses."""

    examples: int = field(default=48, validator=ge(1))
    """Examples of the selection split."""
    draws: int = field(default=2, validator=ge(1))
    """Rollouts of each example."""


@frozen
class TestSettings:
    """How much of the sealed test split the final pass uses."""

    __test__ = False  # not a test case, whatever pytest thinks of the name

    examples: int = field(default=200, validator=ge(1))
    """Examples of the test split."""
    draws: int = field(default=4, validator=ge(1))
    """Rollouts of each example."""


@frozen
class CapSettings:
    """Hard caps: reaching one stops the run, resumable (exit code 5). 0 means none."""

    rollouts: int = field(default=0, validator=ge(0))
    """Rollouts, whatever they are for."""
    tokens: int = field(default=0, validator=ge(0))
    """Prompt and sampled tokens together, a judge's too."""
    usd: float = field(default=0.0, validator=ge(0.0))
    """Money spent on paid calls, in US dollars."""
    seconds: float = field(default=0.0, validator=ge(0.0))
    """Time the run was worked on."""


@frozen
class TrackersSettings:
    """Experiment trackers that follow the run; no result depends on them."""

    use: tuple[str, ...] = ()
    """Names of trackers that get the run's numbers: those that `whale plugins` lists."""
    prefix: str = ""
    """Stands before each number's name there."""
    x: str = field(default="rollouts", validator=in_(AXES))
    """What the numbers are drawn over: `rollouts`, `tokens`, `seconds` or `weight_step`."""


@frozen
class CoreSettings:
    """All settings of the core."""

    seed: int = field(default=0, validator=ge(0))
    """From it all random numbers of the run follow."""
    harness: Annotated[str, PathSetting(_is_harness_file)] = ""
    """The base harness: a name that the domain knows, the path of a ``.py`` file, or empty for the
    domain's own h0."""
    rollout: RolloutSettings = field(factory=RolloutSettings)
    search: SearchSettings = field(factory=SearchSettings)
    selection: SelectionSettings = field(factory=SelectionSettings)
    test: TestSettings = field(factory=TestSettings)
    cap: CapSettings = field(factory=CapSettings)
    checkpoint_steps: int = field(default=10, validator=ge(1))
    """Weight steps between two checkpoints of a phase; those since the last are trained again after
    an interruption, from the rollouts that were kept."""
    trackers: TrackersSettings = field(factory=TrackersSettings)
