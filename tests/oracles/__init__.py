"""Readable versions of what the package computes quickly, which tests compare it with.

`trie` keeps codes as a tree, `beam` searches it level by level, `rerank` orders all items below the beams,
and `blend` writes the re-ranking score as one inner product. They are short and slow, and share no code with
`genius.search`; each has tests of its own against a plain loop.
"""
