"""A comparison as ``whale compare`` writes it, with numbers made up: for readers of the file."""

from __future__ import annotations

from typing import Any

CORNERS = ("theta0_h0", "theta0_h", "theta_h0", "theta_h")


def comparison(
    conditions: tuple[str, ...] = ("weight-only", "whale"),
    seeds: int = 3,
    phases: int = 8,
    text: str = "plain words",
) -> dict[str, Any]:
    """Return conditions that are the better the later they stand; ``text`` is in free fields."""
    runs = [
        run(name, 0.1 * (index + 1), seed, phases, text)
        for index, name in enumerate(conditions)
        for seed in range(seeds)
    ]
    return {
        "schema": 2,
        "domain": "chess",
        "command": f"whale compare … {text}",
        "settings": ["domain=chess", text],
        "budget": {"unit": "rollouts", "amount": 1500.0},
        "sets": list(conditions),
        "seeds": list(range(seeds)),
        "conditions": [
            condition(name, 0.1 * (index + 1), seeds, phases)
            for index, name in enumerate(conditions)
        ],
        "best_on_test": {
            "condition": conditions[-1],
            "mean": 0.1 * len(conditions),
            "of": len(conditions),
            "label": "best of several on test",
        },
        "differences": [
            difference(a, b, 0.1 * (i - j), seeds)
            for i, a in enumerate(conditions)
            for j, b in enumerate(conditions[:i])
        ],
        "rollouts_to_match": [
            {
                "a": a,
                "b": b,
                "refused": "",
                "reached": 1,
                "median_share": 0.058,
                "by_seed": {
                    "0": {
                        "target": 0.1,
                        "other_rollouts": 1500.0,
                        "rollouts": 87.0,
                        "spent": 1490.0,
                        "share": 0.058,
                    },
                    "1": {
                        "target": 0.1,
                        "other_rollouts": 1500.0,
                        "rollouts": None,
                        "spent": 1490.0,
                        "share": None,
                    },
                },
            }
            for i, a in enumerate(conditions)
            for b in conditions[:i]
        ],
        "runs": runs,
        "test_examples": {"0" * 16: [f"test-{i:04}" for i in range(200)]},
    }


def condition(name: str, mean: float, seeds: int, phases: int) -> dict[str, Any]:
    """Return a condition with a result."""
    reach = {"mean": mean, "low": mean - 0.03, "high": mean + 0.03}
    return {
        "name": name,
        "settings_hash": "0123456789abcdef",
        "seeds": {str(seed): mean + 0.01 * seed for seed in range(seeds)},
        "mean": mean,
        "across_seeds": reach if seeds >= 5 else None,
        "start": 0.02,
        "gain": {"mean": mean - 0.02, "low": mean - 0.06, "high": mean + 0.02},
        "unfinished": [],
        "planned_rollouts": None,
        "budget": {
            "unit": "rollouts",
            "amount": 1500.0,
            "planned": 1490,
            "spent": 1490.0,
            "matched": True,
            "spent_matched": True,
        },
        "spent": {"rollouts": 1490.0, "tokens": 2.5e6, "usd": 0.5, "seconds": 230.0},
        "phases": {str(seed): "W8 H3" for seed in range(seeds)},
        "update_rollouts": 1200.0,
        "phase_lengths": {
            "weights": {"phases": 2, "shortest": 4, "median": 6.0, "longest": 8},
            "harness": {"phases": 2, "shortest": 3, "median": 3.0, "longest": 3},
        },
        "selection_optimism": 0.02,
        "luck_of_the_best": 0.01,
        "pass_at": {"4": {**reach, "mean": mean + 0.1, "high": mean + 0.2}},
        "metrics": {"format": 0.9},
        "curve": [
            {"rollouts": 100 * at, "mean": mean * at / phases, "low": 0.0, "high": mean}
            for at in range(phases + 1)
        ],
    }


def difference(a: str, b: str, mean: float, seeds: int) -> dict[str, Any]:
    """Return a difference that is beyond chance from 15 points on."""
    p = 0.001 if mean > 0.15 else 0.4
    return {
        "a": a,
        "b": b,
        "examples": 200,
        "left_out": 0,
        "seeds": {str(seed): mean for seed in range(seeds)},
        "mean": mean,
        "low": mean - 0.1,
        "high": mean + 0.1,
        "across_seeds": None,
        "p": p,
        "p_holm": min(1.0, 3 * p),
        "sentence": f"{a} against {b}",
    }


def run(name: str, mean: float, seed: int, phases: int, text: str) -> dict[str, Any]:
    """Return a finished run."""
    score = {
        "harness": text,
        "harness_id": "aa",
        "weights_id": "bb",
        "split": "test",
        "examples": 200,
        "draws": 4,
        "mean": mean,
        "low": mean - 0.05,
        "high": mean + 0.05,
        "metrics": {text: 0.9},
        "parts": {},
        "sources": {},
    }
    pairs = {c: {**score, "harness_id": c[-2:], "weights_id": c[:6]} for c in CORNERS}
    return {
        "condition": name,
        "run": f"{name}-{seed}",
        "plugin_set": name,
        "seed": seed,
        "settings_hash": "0123456789abcdef",
        "state": "finished",
        "reason": "",
        "domain": "chess",
        "machine": {"machine": "Linux", "engine": {"model": text}},
        "seconds": 230.0,
        "spent": {"rollouts": 1490, "tokens": 2.5e6, "usd": 0.5},
        "by": {
            "policy/train": {"rollouts": 1200, "calls": 2400, "prompt_tokens": 2e6},
            "proposer/propose": {"calls": 4, "prompt_tokens": 9000, "usd": 0.5},
        },
        "points": [point(at, phases, mean, text) for at in range(phases + 1)],
        "decided_at": phases,
        "pairs": pairs,
        "differences": [
            {"a": "theta_h", "b": "theta0_h0", "examples": 200, "mean": mean - 0.02, "low": 0.01,
             "high": 0.3}
        ],
        "chance": {"uniform": 0.03},
        "test_split": "00ff",
        "test_openings": seed + 1,
        "phases": "W8 H3",
        "examples": "0" * 16,
        "means": {c: [0.25] * 200 for c in ("theta_h", "theta0_h0")},
    }  # fmt: skip


def point(at: int, phases: int, mean: float, text: str) -> dict[str, Any]:
    """Return the end of a phase."""
    return {
        "phase": at,
        "kind": ("weights", "harness")[at % 2] if at else "start",
        "cycle": (at + 1) // 2,
        "length": 3,
        "signals": [0.1, 0.2, 0.3],
        "rollouts": 100 * at,
        "tokens": 1000 * at,
        "usd": 0.0,
        "seconds": 10.0 * at,
        "mean": mean * at / phases,
        "low": 0.0,
        "high": mean,
        "metrics": {text: 0.5},
        "harness": text,
        "harness_id": "aa",
        "weights_id": "bb",
    }
