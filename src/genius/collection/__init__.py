"""The collection as a whole, put in order by its codes: what it holds twice, in albums, oddly, in samples,
and how it changes.

`members.Members` are the items of one version as arrays, in the order of their codes; `near_links` finds
which of them are near each other. `duplicates`, `albums`, `outliers` and `samples` each answer one question
with a result object, and are methods of `Index` and of `Client`. `fingerprint` compares images by their
pixels, `album_labels` names groups, `vocabulary` has words for items without texts, `sheets` draws what was
found; `kernels` are compiled loops. `drift` compares old and new items, by `cell_changes` (with
`count_tests`, which account for chance) and `code_errors`; it is a method of `Index` alone.

May import: everything left of it in the order of the layers, up to index.
"""
