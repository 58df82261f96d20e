"""Benchmarks of speed, size and latency, with rival systems measured in the same run so that ratios hold.

`genius bench` runs them:

- `speed`: queries per second of our search modes beside Hugging Face's `generate`, faiss and usearch.
- `curves`: recall against queries per second over real vectors, of every system at several settings.
- `workers`: throughput of several processes that search the same files.
- `storage`: bytes per item, in our forms and in others'.
- `index`: time and memory to write and to open a segment of an index.
- `search`: latency from a text or an image to hits on a real index, step by step.

Below them: `world` (the items and queries that are searched), `systems` (our own systems), `rivals` (other
people's; the only place for HNSW and IVF-PQ), `timing` (how systems are timed in turns), `plot`. This folder
may import every other folder except `cli`; no other folder imports it. Import the modules by name: importing
`genius.bench` itself loads nothing.
"""
