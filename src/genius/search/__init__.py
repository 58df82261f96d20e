"""Search over arrays: from query vectors and codes to ranked rows, without files, items or models.

`engine.Engine` is the one search engine: an index, evaluations, the doctor and training's validation all use
it. It follows prefixes by `beam.beam_search` over `segment_view.SegmentView`s of packed `codes`, the first of
them in one step by `cells`, scores candidates by the formula in `scoring`, and ranks them in `rerank`, very
many only after a `preselection`. `kernels` are its compiled loops, `explain` fills in what an early stop left
open, `costs` decides what `auto` does. `dense` is exact search by inner products.

May import: errors, jit, data, encode, quantize, decode, model, corpus.
"""
