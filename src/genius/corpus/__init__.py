"""A benchmark as arrays: its items, its queries with their answers, embedded and coded by a model.

`items.read_items` and `queries.read_queries` number what an M-BEIR tree holds, `source` says what a model
embeds it from,
`embedded` and `coded` hold what comes out. Evaluation, the doctor and training share these.

May import: errors, data, encode, quantize, decode, model.
"""
