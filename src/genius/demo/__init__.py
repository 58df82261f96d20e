"""The demo: a small, real and openly licensed corpus of emoji, and what `genius demo` does with it.

The corpus: `demo_tree` downloads and builds it (corpus) from emoji (emoji) and the tasks made of them (tasks,
tags, wording). What the command shows: `report` measures a model (report, naming), `open_index` opens the
demo's index (index), and `search_examples` searches it (examples).

It may import every layer except bench and cli; it prints nothing.
"""
