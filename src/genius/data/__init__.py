"""Data coming in: records, readers for every kind of collection, image decoding and text cleaning.

Public names and their files: `Item`, `Query`, `Modality` and the image sources (records), `read` and
`Collection` (read), `Tree` for benchmarks in M-BEIR's layout (mbeir), `Task` (tasks), `load` to decode an
image (images), `read_exif` for what a camera wrote into it (exif), `Columns` of a table (columns; rows makes
items of its rows), `clean` and `query_text` (text), `write_items` (tables) and `write_tree` (mbeir_writer).

It is the first layer and may import base modules only (errors, atomic, paths), no other folder.
"""
