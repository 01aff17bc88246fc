"""Which log-probabilities a server tells, and which decoding they are right for.

A record's log-probabilities are those of the policy at the sampling temperature, before ``top_k``
and ``top_p`` leave tokens out (``whale_core.records.Sampling``). vLLM tells either *raw* ones, of
temperature 1 and unfiltered, or *processed* ones, after temperature and filters
(``--logprobs-mode``). Each is right for some decoding settings, and for no other.
"""

from __future__ import annotations

from whale_core.records import Sampling

RAW = "raw_logprobs"
PROCESSED = "processed_logprobs"


def needed_mode(sampling: Sampling) -> str:
    """Return the mode in which a server for ``sampling`` is to be started."""
    return RAW if sampling.temperature in (0.0, 1.0) else PROCESSED


def problem_with(sampling: Sampling, mode: str) -> str | None:
    """Return why a server in ``mode`` cannot tell the log-probabilities; None when it can.

    At temperature 0 they are those of temperature 1, as everywhere in WHALE.
    """
    greedy = sampling.temperature == 0.0
    filtered = not greedy and (sampling.top_k > 0 or sampling.top_p < 1.0)
    asked = f"rollout.temperature={sampling.temperature:g}"
    if filtered:
        asked += f" with top_k={sampling.top_k} and top_p={sampling.top_p:g}"
    if sampling.temperature not in (0.0, 1.0):
        if filtered:
            return (
                f"{asked}: vLLM tells no log-probabilities of the unfiltered policy at another "
                "temperature than 1; set rollout.temperature=1, or rollout.top_k=0 and "
                "rollout.top_p=1"
            )
        if mode == RAW:
            return (
                f"{asked}: the server tells log-probabilities of temperature 1; start it with "
                f"--logprobs-mode {PROCESSED}"
            )
    elif filtered and mode == PROCESSED:
        return (
            f"{asked}: the server tells log-probabilities of the filtered policy; start it with "
            f"--logprobs-mode {RAW}"
        )
    return None
