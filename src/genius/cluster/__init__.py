"""Work on many machines by Ray: indexes are built, models trained and shards served there.

Building needs no Ray but for its workers: `encoded_chunk` makes a segment of a chunk of the source,
`index_build` commits it, and `build` gives chunks to workers. `connection` joins a cluster, `ray_workers` are
workers on it.

May import: everything left of it in the order of the layers, up to client. Only `connection` and the modules
that begin with `ray_` import Ray, when they are used.
"""
