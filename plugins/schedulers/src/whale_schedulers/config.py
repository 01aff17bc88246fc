"""The settings of the schedulers.

Iterations count the evaluation of the incoming harness, so 6 iterations are 5 proposal rounds and 1
would propose nothing.
"""

from __future__ import annotations

from typing import ClassVar

from attrs import Attribute, field, frozen
from attrs.validators import and_, ge, gt, lt, optional

from whale_core.config.later import LATER


@frozen
class FixedConfig:
    """``epochs`` of weights and ``iterations`` of search in turn; ``total_epochs`` of weights."""

    needs: ClassVar[tuple[str, ...]] = ("model_update", "harness_search")

    epochs: float = field(default=0.2, validator=gt(0.0))
    """Epochs of weights in each cycle."""
    iterations: int = field(default=6, validator=ge(2))
    """Iterations of search in each cycle, the evaluation of the incoming harness counted."""
    total_epochs: float = field(default=1.0, validator=gt(0.0))
    """Epochs of weights in the whole run."""


@frozen
class PatienceConfig:
    """Each phase until its training signal stops rising."""

    needs: ClassVar[tuple[str, ...]] = ("model_update", "harness_search")

    total_epochs: float = field(default=1.0, validator=gt(0.0))
    """Epochs of weights in the whole run."""
    min_epochs: float = field(default=0.2, validator=gt(0.0))
    """A weight phase is longer than this."""
    window_epochs: float = field(default=0.2, validator=gt(0.0))
    """The training reward is averaged over the last so many epochs."""
    patience_epochs: float = field(default=0.2, validator=gt(0.0))
    """A weight phase ends when that mean has had no new best for so long."""
    min_iterations: int = field(default=6, validator=ge(2))
    """A harness phase has at least so many, the evaluation of the incoming harness counted."""
    patience_iterations: int = field(default=2, validator=ge(1))
    """A harness phase ends when the archive's best has not risen for so many."""
    max_iterations: int = field(default=16)  # published: 15 proposal rounds
    """A harness phase has at most so many."""
    full_windows: bool = False
    """Compare means of full windows only; as published, a phase's first steps count too."""
    min_gain: float = field(default=0.0, validator=and_(ge(0.0), lt(1.0)))
    """A new best must be more than this above the last one, in both kinds of phase."""
    total_rollouts: int | None = field(default=None, validator=optional(ge(1)), metadata=LATER)
    """Rollouts of all phases together (of steps and scores, as `budget-share` counts them), so that
    runs are as long as others however their phases fall; null: `total_epochs` alone bounds them."""

    @max_iterations.validator
    def _not_below_the_minimum(self, attribute: Attribute[int], value: int) -> None:
        if value < self.min_iterations:
            raise ValueError(f"must be >= min_iterations, {self.min_iterations}: {value}")


@frozen
class StagewiseConfig:
    """``epochs`` of weights in one phase, then ``iterations`` of search in one phase.

    By default as many epochs and proposal rounds as ``fixed`` makes by default.
    """

    needs: ClassVar[tuple[str, ...]] = ("model_update", "harness_search")

    epochs: float = field(default=1.0, validator=gt(0.0))
    """Epochs of weights."""
    iterations: int = field(default=21, validator=ge(2))
    """Iterations of search, the evaluation of the incoming harness counted."""


@frozen
class BudgetShareConfig:
    """As many searches of ``iterations`` as ``share`` of the rollouts pays for.

    The weights are trained for ``total_epochs``, in equal phases around the searches.
    """

    needs: ClassVar[tuple[str, ...]] = ("model_update", "harness_search")

    share: float = field(default=0.05, validator=and_(gt(0.0), lt(1.0)))
    """Share of the searches in the planned rollouts of both kinds of phase."""
    iterations: int = field(default=6, validator=ge(2))
    """Iterations of each search, the evaluation of the incoming harness counted."""
    total_epochs: float = field(default=1.0, validator=gt(0.0))
    """Epochs of weights in the whole run."""


@frozen
class WeightOnlyConfig:
    """``epochs`` of weights in one phase."""

    needs: ClassVar[tuple[str, ...]] = ("model_update",)

    epochs: float = field(default=1.0, validator=gt(0.0))
    """Epochs of weights."""


@frozen
class HarnessOnlyConfig:
    """``iterations`` of search in one phase."""

    needs: ClassVar[tuple[str, ...]] = ("harness_search",)

    iterations: int = field(default=6, validator=ge(2))
    """Iterations of search, the evaluation of the incoming harness counted."""


@frozen
class EvaluationOnlyConfig:
    """Nothing to set: there are no phases."""


@frozen
class DiagnosticConfig:
    """A search and a weight phase as probes; then what gained more per rollout gets each phase.

    A search or a weight phase that the budget cannot pay for in full is cut.
    """

    needs: ClassVar[tuple[str, ...]] = ("model_update", "harness_search")

    probe_iterations: int = field(default=3, validator=ge(2))
    """Iterations of the search that is the first probe, the incoming harness counted."""
    probe_epochs: float = field(default=0.1, validator=gt(0.0))
    """Epochs of weights of the second probe."""
    iterations: int = field(default=6, validator=ge(2))
    """Iterations of each further search, the evaluation of the incoming harness counted."""
    epochs: float = field(default=0.2, validator=gt(0.0))
    """Epochs of weights of each further weight phase."""
    total_epochs: float = field(default=1.0, validator=gt(0.0))
    """The budget: all phases, searches too, make the rollouts of so many epochs of weights."""
