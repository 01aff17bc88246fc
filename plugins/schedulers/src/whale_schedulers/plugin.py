"""What this package registers; the classes are imported when a run picks one."""

from __future__ import annotations

from whale_core.plugins import Registration, hookimpl


@hookimpl
def whale_register_schedulers() -> list[Registration]:
    """Register the schedulers of this package."""
    return [
        Registration(
            name="fixed",
            factory="whale_schedulers.fixed:Fixed",
            config="whale_schedulers.config:FixedConfig",
            summary="E epochs of weights and I iterations of search in turn, up to a total",
        ),
        Registration(
            name="patience",
            factory="whale_schedulers.patience:Patience",
            config="whale_schedulers.config:PatienceConfig",
            summary="in turn, each phase until its training signal stops rising",
        ),
        Registration(
            name="final-search",
            factory="whale_schedulers.fixed:FinalSearch",
            config="whale_schedulers.config:FixedConfig",
            summary="fixed, and one more search under the last weights",
        ),
        Registration(
            name="order-swap",
            factory="whale_schedulers.fixed:OrderSwap",
            config="whale_schedulers.config:FixedConfig",
            summary="fixed with the harness first in each cycle",
        ),
        Registration(
            name="budget-share",
            factory="whale_schedulers.budget_share:BudgetShare",
            config="whale_schedulers.config:BudgetShareConfig",
            summary="in turn, with as many searches as a share of the rollouts pays for",
        ),
        Registration(
            name="stagewise",
            factory="whale_schedulers.fixed:Stagewise",
            config="whale_schedulers.config:StagewiseConfig",
            summary="all of the weight budget, then one search",
        ),
        Registration(
            name="weight-only",
            factory="whale_schedulers.single:WeightOnly",
            config="whale_schedulers.config:WeightOnlyConfig",
            summary="one weight phase, the harness left as it is",
        ),
        Registration(
            name="harness-only",
            factory="whale_schedulers.single:HarnessOnly",
            config="whale_schedulers.config:HarnessOnlyConfig",
            summary="one harness phase, the weights left as they are",
        ),
        Registration(
            name="diagnostic",
            factory="whale_schedulers.diagnostic:Diagnostic",
            config="whale_schedulers.config:DiagnosticConfig",
            summary="a short search and short training as probes, then what gains more per rollout",
        ),
        Registration(
            name="evaluation-only",
            factory="whale_schedulers.single:EvaluationOnly",
            config="whale_schedulers.config:EvaluationOnlyConfig",
            summary="no phase: the pair it starts from is measured (best-of-n, a null model)",
        ),
    ]
