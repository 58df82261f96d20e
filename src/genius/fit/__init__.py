"""Models without labels: from any encoder and the items of a collection to a searchable model.

`run.fit_model` does it all (`Model.fit` and `genius fit` call it): `base` opens the encoder, `sample` embeds
items, `codebooks` fits codes to them by k-means, `tuning` chooses by self-retrieval what training chooses by
validation queries, and `overlap` says how much of exact search the codes keep.

May import everything up to `genius.index`; no torch unless the encoder needs it.
"""
