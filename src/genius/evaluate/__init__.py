"""Evaluation by M-BEIR's protocol: every task's queries in its local pool and in the union of all.

`run.evaluate_model` is the whole: it embeds a tree, searches it with the `systems` (dense baselines, and the
engine that an index uses), and measures by `metrics` under the `protocol`; `report` writes tables, runs and a
plot.

May import: everything left of it in the order of the layers, up to index.
"""
