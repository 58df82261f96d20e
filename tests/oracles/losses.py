"""The losses of training, term by term as the paper's equations have them, in double precision, row by row.

Vectors are rows of float64 tensors that may carry a gradient; `.detach()` is the paper's sg. Items are given
by position; `others` has for each query the positions of its positives besides its target, to be left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


def negative_log_softmax(logits: torch.Tensor, target: int) -> torch.Tensor:
    """−log(exp(x_target) / Σ exp(x))."""
    return -torch.log(torch.exp(logits[target]) / torch.exp(logits).sum())


def query_to_items(
    queries: torch.Tensor,
    items: torch.Tensor,
    targets: Sequence[int],
    others: Sequence[set[int]],
    temperature: float | torch.Tensor,
) -> torch.Tensor:
    """Eq. 2 (and Eq. 3, which is the same for other vectors), the mean over queries."""
    losses = []
    for query, target, left_out in zip(queries, targets, others, strict=True):
        candidates = [place for place in range(len(items)) if place not in left_out]
        logits = items[candidates] @ query / temperature
        losses.append(negative_log_softmax(logits, candidates.index(target)))
    return torch.stack(losses).mean()


def item_to_queries(
    queries: torch.Tensor,
    items: torch.Tensor,
    targets: Sequence[int],
    others: Sequence[set[int]],
    temperature: float,
) -> torch.Tensor:
    """Eq. 3 the other way: each query among all queries, for its own target; the mean over queries."""
    losses = []
    for number, target in enumerate(targets):
        candidates = [row for row in range(len(queries)) if target not in others[row]]
        logits = queries[candidates] @ items[target] / temperature
        losses.append(negative_log_softmax(logits, candidates.index(number)))
    return torch.stack(losses).mean()


def contrast_both_ways(
    queries: torch.Tensor,
    items: torch.Tensor,
    targets: Sequence[int],
    others: Sequence[set[int]],
    temperature: float,
) -> torch.Tensor:
    """L_cl: the mean of Eq. 3 from queries to items and from items to queries."""
    forth = query_to_items(queries, items, targets, others, temperature)
    return (forth + item_to_queries(queries, items, targets, others, temperature)) / 2


def residuals(
    vector: torch.Tensor, code: Sequence[int], codebooks: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """r_0 to r_M (Eq. 6): the vector, and what each level leaves of it."""
    left = [vector]
    for number, book in zip(code, codebooks, strict=True):
        left.append(left[-1] - book[number].detach())
    return left


def commitment(
    vectors: torch.Tensor, codes: Sequence[Sequence[int]], codebooks: Sequence[torch.Tensor]
) -> torch.Tensor:
    """L_rq (Eq. 7): ‖r_{i−1} − sg(e_i)‖², the mean over levels, vectors and dimensions."""
    squares = []
    for vector, code in zip(vectors, codes, strict=True):
        before = residuals(vector, code, codebooks)[:-1]
        for residual, number, book in zip(before, code, codebooks, strict=True):
            squares.append((residual - book[number].detach()).square().mean())
    return torch.stack(squares).mean()


def straight_through(
    vectors: torch.Tensor, codes: Sequence[Sequence[int]], codebooks: Sequence[torch.Tensor], gain: float
) -> torch.Tensor:
    """ẑ = Σ e_i, with the gradient of gain · z."""
    sums = torch.stack(
        [
            torch.stack([book[number] for number, book in zip(code, codebooks, strict=True)]).sum(0)
            for code in codes
        ]
    )
    return sums.detach() + gain * (vectors - vectors.detach())


def quantized_distance(queries: torch.Tensor, items: torch.Tensor, targets: Sequence[int]) -> torch.Tensor:
    """L_mse: ‖ẑ_q − ẑ_c‖² of normalised quantized vectors, the mean over queries and dimensions."""
    squares = [
        (query / query.norm() - items[target] / items[target].norm()).square().mean()
        for query, target in zip(queries, targets, strict=True)
    ]
    return torch.stack(squares).mean()


def prefix_cross_entropy(
    queries: torch.Tensor,
    answer_codes: Sequence[Sequence[int]],
    codebooks: Sequence[torch.Tensor],
    *,
    first_level: int,
    levels: int,
    temperature: float,
) -> torch.Tensor:
    """−Σ log p(t_i | z_q, t_<i) of the answer's first semantic codes, with p the softmax of −‖r − e‖² / τ and
    r the query's residual along the answer's code; the mean over queries."""
    losses = []
    for query, code in zip(queries, answer_codes, strict=True):
        left = residuals(query, code, codebooks)
        total = torch.zeros((), dtype=torch.float64)
        for level in range(first_level, first_level + levels):
            logits = -(left[level] - codebooks[level]).square().sum(1) / temperature
            total = total + negative_log_softmax(logits, int(code[level]))
        losses.append(total)
    return torch.stack(losses).mean()


def modality_cross_entropy(
    vectors: torch.Tensor, modality: Sequence[int], weights: torch.Tensor, biases: torch.Tensor
) -> torch.Tensor:
    """−log p(modality | sg(z)) of a linear classifier, the mean over vectors."""
    losses = [
        negative_log_softmax(weights @ vector.detach() + biases, int(wanted))
        for vector, wanted in zip(vectors, modality, strict=True)
    ]
    return torch.stack(losses).mean()


def code_cross_entropy(
    logits: Sequence[torch.Tensor],
    codes: Sequence[Sequence[int]],
    level_weights: Sequence[float],
    smoothing: float,
) -> torch.Tensor:
    """Eq. 10: −log p(t_i | z', t_<i), the weighted mean over levels, the mean over rows.

    `logits` are by level [rows, codes]; with label smoothing the target is (1 − s) · one-hot + s · uniform.
    """
    losses = []
    for row, code in enumerate(codes):
        total = torch.zeros((), dtype=torch.float64)
        for level, target in enumerate(code):
            scores = logits[level][row]
            by_code = torch.stack([negative_log_softmax(scores, other) for other in range(len(scores))])
            share = level_weights[level] / sum(level_weights)
            total = total + share * ((1 - smoothing) * by_code[target] + smoothing * by_code.mean())
        losses.append(total)
    return torch.stack(losses).mean()


def prefix_ranking_distillation(
    teacher: torch.Tensor,
    queries: torch.Tensor,
    prefixes: Sequence[torch.Tensor],
    *,
    temperature: float,
    top: int,
) -> torch.Tensor:
    """T² · KL(softmax(teacher / T) ‖ softmax(cos(q, ĉ_l) / T)) over the teacher's best items, the mean over
    queries and levels; `teacher` is [queries, items], `prefixes` are by level [items, width]."""
    losses = []
    for query, scores in zip(queries, teacher, strict=True):
        best = sorted(range(len(scores)), key=lambda item: -float(scores[item]))[:top]
        target = torch.stack([torch.exp(scores[item] / temperature) for item in best])
        target = target / target.sum()
        for sums in prefixes:
            cosines = [query @ sums[item] / (query.norm() * sums[item].norm()) for item in best]
            student = torch.exp(torch.stack(cosines) / temperature)
            student = student / student.sum()
            divergence = (target * torch.log(target / student)).sum()
            losses.append(temperature**2 * divergence)
    return torch.stack(losses).mean()
