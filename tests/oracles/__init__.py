"""Readable versions of what the package computes quickly, which tests compare it with.

`trie` keeps codes as a tree, `beam` searches it level by level, `rerank` orders all items below the beams,
and `blend` writes the re-ranking score as one inner product: short and slow, without any code of
`genius.search`, and each tested against a plain loop. `geometry`, `filters` and `losses` are written down
from their definitions.
"""
