"""Beam search by `generate` of transformers, restricted to codes that exist."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from genius.decode.t5 import T5Decoder
from tests.decode.small_decoder import as_t5, prefixes


def generate(network: T5Decoder, vectors: np.ndarray, codes: np.ndarray, beams: int) -> list[list[Any]]:
    """What `generate` of transformers returns for each query: codes with scores, best first.

    It would normalise over all codes of all levels. So a processor that normalises inside the level comes
    first, and then the one that `prefix_allowed_tokens_fn` becomes (given as such it would come first).
    """
    from transformers import LogitsProcessor, LogitsProcessorList, PrefixConstrainedLogitsProcessor
    from transformers.modeling_outputs import BaseModelOutput

    offsets, sizes = torch.tensor(network.offsets), network.sizes
    known = {(): set()} | {tuple(row[:level]): set() for row in codes.tolist() for level in range(len(sizes))}
    for row in codes.tolist():
        for level, code in enumerate(row):
            known[tuple(row[:level])].add(network.offsets[level] + code)

    def allowed(_: int, tokens: Any) -> list[int]:
        prefix = (tokens[1:] - offsets[: len(tokens) - 1]).tolist()
        return sorted(known.get(tuple(prefix), {0}))  # (a beam that ran out of codes goes on with nothing)

    class InsideTheLevel(LogitsProcessor):
        def __call__(self, tokens: Any, scores: Any) -> Any:
            level = tokens.shape[1] - 1
            inside = slice(network.offsets[level], network.offsets[level] + sizes[level])
            levelled = torch.full_like(scores, -torch.inf)
            levelled[:, inside] = scores[:, inside].log_softmax(1)
            return levelled

    processors = [InsideTheLevel(), PrefixConstrainedLogitsProcessor(allowed, beams)]
    model = as_t5(network, encoder_layers=network.settings.layers)
    with torch.no_grad():
        encoded = network.prefix_norm(prefixes(network, vectors))
        generated = model.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=encoded),
            attention_mask=torch.ones(encoded.shape[:2], dtype=torch.long),
            num_beams=beams,
            num_return_sequences=beams,
            max_new_tokens=len(sizes),
            early_stopping=True,
            length_penalty=0.0,
            do_sample=False,
            logits_processor=LogitsProcessorList(processors),
            output_scores=True,
            return_dict_in_generate=True,
        )
    rows = (generated.sequences[:, 1:] - offsets).view(len(vectors), beams, -1).tolist()
    scores = generated.sequences_scores.view(len(vectors), beams).tolist()
    return [
        list(zip(map(tuple, codes), values, strict=True)) for codes, values in zip(rows, scores, strict=True)
    ]
