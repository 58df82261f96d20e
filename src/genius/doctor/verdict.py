"""Healthy, weak or broken: by what search finds, and never by how evenly codes are used.

Without contrast, codebooks look perfect (all codes used, few collisions) and recall falls to a third; and
refitting them made use and cosine better and recall worse. So use and collisions only add advice.
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

KEPT_BROKEN = 0.6
"""Codes alone that keep less of fair dense recall can't be saved by any decoder: a quantizer without contrast
keeps about a third, a good one nearly all."""
KEPT_WEAK = 0.95
"""A good quantizer keeps 0.97 to 1.00, and a sample of queries is off by a point or two."""
FIRST_BROKEN = 0.5
"""If half of the answers are gone after a single semantic code, all that follows works on the other half."""
FIRST_WEAK = 0.9
"""A good quantizer keeps 0.97 and more in a beam of 50 after one semantic code."""
LAST_WEAK = 0.8
"""Of what dense search has among its first 50, the beam should still hold this share at the end."""
PURITY_WEAK = 0.95
"""A learned first code that is wrong for more items hides them from everybody who says what they want."""

LITTLE_USED = 0.5
"""The released quantizer of the paper uses 47 % of its first semantic codes, and works."""
OWN_CODE = 0.99
"""Contents that share a code come back in no particular order."""
INFERRED = 0.9
"""Below this share of what survives with the wanted modality given, it is worth saying `want`."""


@dataclass(frozen=True)
class Reason:
    """What is wrong, and what to change; a sentence each."""

    finding: str
    change: str


@dataclass(frozen=True)
class Verdict:
    """The state of a model, the reasons for it, and advice that has no part in it."""

    state: State
    reasons: tuple[Reason, ...]
    advice: tuple[Reason, ...]

    @property
    def summary(self) -> str:
        """The verdict in one sentence."""
        return {
            "healthy": "healthy: codes keep what dense search finds, and beams keep what codes hold.",
            "weak": "weak: search works, but loses more than it should.",
            "broken": "broken: don't train a decoder on it or index with it before it is mended.",
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
            "Encode the collection again and train the stage anew, at a lower learning rate if need be.",
        )
    if not np.isfinite(health.kept):
        yield Reason(
            "Even dense search finds no answer, so there is no recall that codes could keep.",
            "Check that the model belongs to this tree, then train the encoder stage again.",
        )
    elif health.kept < KEPT_BROKEN:
        yield Reason(_kept(health, KEPT_BROKEN), _where(health))
    first = _first(health)
    if not first >= FIRST_BROKEN:
        yield Reason(
            f"After the first semantic code {_percent(first)} of the queries have an answer left in a beam "
            f"of {BEAMS}, below {_percent(FIRST_BROKEN)}: queries are not coded where their answers are.",
            "Train with the contrastive loss (contrast above 0) and more weight on gamma, which draws "
            "queries and answers to the same codes.",
        )


def _weak(health: Health) -> Iterator[Reason]:
    if health.kept < KEPT_WEAK:
        yield Reason(_kept(health, KEPT_WEAK), _where(health))
    first, last = _first(health), health.known[-1]
    if first < FIRST_WEAK:
        yield Reason(
            f"After the first semantic code {_percent(first)} of the queries have an answer left in a beam "
            f"of {BEAMS}, below {_percent(FIRST_WEAK)}.",
            "Give gamma more weight, train for more steps, or take fewer codes at the first semantic level.",
        )
    if last < LAST_WEAK * health.ceiling:
        yield Reason(
            f"At the end of the code {_percent(last)} of the queries have an answer in a beam of {BEAMS}; "
            f"dense search has one among its first {BEAMS} for {_percent(health.ceiling)}, and a beam should "
            f"keep {_percent(LAST_WEAK)} of that.",
            _where_survival_falls(health),
        )
    if health.coding.first == "learned" and health.purity < PURITY_WEAK:
        yield Reason(
            f"The first code stands for the modality of {_percent(health.purity)} of the items only, below "
            f"{_percent(PURITY_WEAK)}: the others can't be found by those who say what they want.",
            'Take the modality as it is known (codebooks.modality_code = "given"), or train for more steps.',
        )


def _advice(health: Health) -> Iterator[Reason]:
    coding = health.coding
    level = health.levels[coding.semantic]
    if level.used < LITTLE_USED:
        yield Reason(
            f"Items use {_percent(level.used)} of the {level.size:,} codes of the first semantic level.",
            "If recall is short too, raise codebooks.dead_code_threshold or take a smaller codebooks.size.",
        )
    if health.buckets.own < OWN_CODE:
        yield Reason(
            f"{_percent(health.buckets.own)} of the {health.buckets.contents:,} different contents have a "
            f"code of their own; the largest bucket holds {health.buckets.largest:,} items.",
            "More codebooks.levels tell them apart, and so does re-ranking.",
        )
    spoken = {MODALITIES[number].value for number in coding.modality_of}
    silent = [group.modality for group in health.buckets.groups if group.modality not in spoken]
    if silent and coding.modality_of:
        yield Reason(
            f"No first code stands for the modality {' and '.join(silent)}.",
            'Take the modality as it is known: codebooks.modality_code = "given".',
        )
    known, inferred = health.known[-1], health.inferred[-1]
    if coding.first != "none" and inferred < INFERRED * known:
        yield Reason(
            f"Where the wanted modality is not given, {_percent(inferred)} instead of {_percent(known)} of "
            "the queries keep an answer to the end.",
            "Say what is wanted (`want`), or use instructions that say it.",
        )


def _kept(health: Health, bar: float) -> str:
    return (
        f"Search by codes alone keeps {_percent(health.kept)} of what fair dense search finds "
        f"({_percent(health.codes)} instead of {_percent(health.dense_baseline)}), below {_percent(bar)}."
    )


def _where(health: Health) -> str:
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
        "contrast is above 0, train for more steps, and take more codes (codebooks.size) or codebooks.levels."
    )


def _where_survival_falls(health: Health) -> str:
    """What to change, by the level that loses most."""
    known = (1.0, *health.known)
    level = int(np.argmin(np.diff(known))) + 1
    return (
        f"Most is lost at level {level}: give gamma more weight, train for more steps, or search with a "
        "wider beam or with re-ranking after the first levels."
    )


def _first(health: Health) -> float:
    return health.known[health.coding.semantic]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if np.isfinite(share) else "no number"
