"""An index: items that can be searched, in a folder of a SQLite catalogue and immutable segments.

`index.Index` is the class that users hold; `query.SearchOptions` are the options and limits of a search,
`hits.Hits` what it returns. Reading: `snapshot.Snapshot` is one version, `searcher.Searcher` searches its
segments, `filters` become SQL, `cells` looks up codes. Writing: `ingest` encodes items (`item_encoder`) and
`writer` commits them as `segments` that the `catalogue` names. `locks` says who may do what when, `inspect`
checks an index from outside. `stored_items` reads all that a version holds, without a model: `merge` and
`split` make other indexes of it (`assembly`), `export` a table; `recode` moves items to another model.

May import: everything left of it in the order of the layers, up to search.
"""
