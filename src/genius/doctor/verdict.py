"""Healthy, weak or broken: judged by what a search finds, never by how evenly codes are used.

Codebooks trained without contrast look perfect (all codes used, few collisions) and recall falls to a third;
refitting codebooks improved use and cosine and lost recall. So use and collisions only add advice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from genius.data.records import MODALITIES
from genius.doctor.health import Health
from genius.search.beam import BEAMS

State = Literal["healthy", "weak", "broken"]

RECALL_KEPT_BROKEN = 0.6
"""No decoder can save codes that keep less of the dense baseline's recall: a quantizer without contrast keeps
about a third, a good one nearly all."""
RECALL_KEPT_WEAK = 0.95
"""A good quantizer keeps 0.97 to 1.00, and a sample of queries is off by a point or two."""
FIRST_LEVEL_BROKEN = 0.5
"""If half of the answers are gone after a single semantic code, all that follows works on the other half."""
FIRST_LEVEL_WEAK = 0.9
"""A good quantizer keeps 0.97 and more in a beam of 50 after one semantic code."""
LAST_LEVEL_WEAK = 0.8
"""The beam should end with at least this share of what dense search has among its first 50."""
PURITY_WEAK = 0.95
"""Items with a wrong learned modality code are hidden from queries that name the modality they want."""

USE_LOW = 0.5
"""The paper's released quantizer uses 47 % of its first semantic codes, and works."""
OWN_CODE_LOW = 0.99
"""Contents that share a code come back in no particular order."""
INFERRED_LOW = 0.9
"""If less than this share of the survival with a given modality is left, `want` is worth stating."""


@dataclass(frozen=True)
class Reason:
    """What is wrong, and what to change; a sentence each."""

    finding: str
    change: str


@dataclass(frozen=True)
class Verdict:
    """The state of a model, the reasons for it, and advice that had no influence on it."""

    state: State
    reasons: tuple[Reason, ...]
    advice: tuple[Reason, ...]

    @property
    def summary(self) -> str:
        """The verdict in one sentence."""
        return {
            "healthy": "healthy: codes keep what dense search finds, and beams keep what codes hold.",
            "weak": "weak: search works, but loses more than it should.",
            "broken": "broken: don't train a decoder on it or index with it before it is fixed.",
        }[self.state]


def judge(health: Health) -> Verdict:
    """The verdict on a model's figures."""
    broken, weak = tuple(_broken(health)), tuple(_weak(health))
    state: State = "broken" if broken else "weak" if weak else "healthy"
    return Verdict(state, broken or weak, tuple(_advice(health)))


def _broken(health: Health) -> Iterator[Reason]:
    if health.not_finite:
        yield Reason(
            f"{health.not_finite:,} vectors of items and queries are NaN or infinite.",
            "Encode the collection again and repeat the training stage, at a lower learning rate if need be.",
        )
    if not np.isfinite(health.recall_kept):
        yield Reason(
            "Even dense search finds no answer, so there is no recall that codes could keep.",
            "Check that the model belongs to this tree, then train the encoder stage again.",
        )
    elif health.recall_kept < RECALL_KEPT_BROKEN:
        yield Reason(_recall_kept(health, RECALL_KEPT_BROKEN), _where_recall_falls(health))
    first = _after_first_semantic_code(health)
    if not first >= FIRST_LEVEL_BROKEN:
        yield Reason(
            f"After the first semantic code {_percent(first)} of the queries have an answer left in a beam "
            f"of {BEAMS}, below {_percent(FIRST_LEVEL_BROKEN)}: queries get other codes than their answers.",
            "Train with the contrastive loss (contrast above 0) and more weight on gamma, which draws "
            "queries and answers to the same codes.",
        )


def _weak(health: Health) -> Iterator[Reason]:
    if health.recall_kept < RECALL_KEPT_WEAK:
        yield Reason(_recall_kept(health, RECALL_KEPT_WEAK), _where_recall_falls(health))
    first, last = _after_first_semantic_code(health), health.survival_given[-1]
    if first < FIRST_LEVEL_WEAK:
        yield Reason(
            f"After the first semantic code {_percent(first)} of the queries have an answer left in a beam "
            f"of {BEAMS}, below {_percent(FIRST_LEVEL_WEAK)}.",
            "Give gamma more weight, train for more steps, or use fewer codes at the first semantic level.",
        )
    if last < LAST_LEVEL_WEAK * health.ceiling:
        yield Reason(
            f"At the end of the code {_percent(last)} of the queries have an answer in a beam of {BEAMS}; "
            f"dense search has one among its first {BEAMS} for {_percent(health.ceiling)}, and a beam should "
            f"keep {_percent(LAST_LEVEL_WEAK)} of that.",
            _where_survival_falls(health),
        )
    if health.code_spec.modality_code == "learned" and health.purity < PURITY_WEAK:
        yield Reason(
            f"The modality code stands for the modality of {_percent(health.purity)} of the items only, "
            f"below {_percent(PURITY_WEAK)}: queries that name the modality they want can't find the others.",
            'Use the modality as it is known (codebooks.modality_code = "given"), or train for more steps.',
        )


def _advice(health: Health) -> Iterator[Reason]:
    spec = health.code_spec
    level = health.levels[spec.first_semantic_level]
    if level.used < USE_LOW:
        yield Reason(
            f"Items use {_percent(level.used)} of the {level.size:,} codes of the first semantic level.",
            "If recall is low too, raise codebooks.dead_code_threshold or choose a smaller codebooks.size.",
        )
    buckets = health.buckets
    if buckets.own_code < OWN_CODE_LOW:
        yield Reason(
            f"{_percent(buckets.own_code)} of the {buckets.distinct_contents:,} distinct contents have a "
            f"code of their own; the largest bucket holds {buckets.largest:,} items.",
            "More codebooks.levels tell them apart, and so does re-ranking.",
        )
    with_code = {MODALITIES[number].value for number in spec.modality_of}
    without_code = [group.modality for group in buckets.by_modality if group.modality not in with_code]
    if without_code and spec.modality_of:
        yield Reason(
            f"No modality code stands for the modality {' and '.join(without_code)}.",
            'Use the modality as it is known: codebooks.modality_code = "given".',
        )
    given, inferred = health.survival_given[-1], health.survival_inferred[-1]
    if spec.modality_code != "none" and inferred < INFERRED_LOW * given:
        yield Reason(
            f"Where the wanted modality is not given, {_percent(inferred)} instead of {_percent(given)} of "
            "the queries keep an answer to the end.",
            "State the wanted modality (`want`), or use instructions that name it.",
        )


def _recall_kept(health: Health, bar: float) -> str:
    return (
        f"Search by codes alone keeps {_percent(health.recall_kept)} of what the dense baseline finds "
        f"({_percent(health.codes)} instead of {_percent(health.dense_baseline)}), below {_percent(bar)}."
    )


def _where_recall_falls(health: Health) -> str:
    """What to change, by whether the fusion or the quantizer loses more."""
    by_fusion = health.embeddings - health.vectors
    by_codes = health.vectors - health.codes
    if by_fusion > by_codes:
        return (
            f"Most of it is lost before quantization, since vectors find {_percent(health.vectors)}: give "
            "contrast more weight against beta and gamma, or train for more steps."
        )
    return (
        f"Most of it is lost by quantization, since vectors find {_percent(health.vectors)}: check that "
        "contrast is above 0, train for more steps, and use more codes (codebooks.size) or codebooks.levels."
    )


def _where_survival_falls(health: Health) -> str:
    """What to change, by the level that loses most."""
    level = int(np.argmin(np.diff((1.0, *health.survival_given)))) + 1
    return (
        f"Most is lost at level {level}: give gamma more weight, train for more steps, or search with a "
        "wider beam or with re-ranking after the first levels."
    )


def _after_first_semantic_code(health: Health) -> float:
    return health.survival_given[health.code_spec.first_semantic_level]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if np.isfinite(share) else "no number"
