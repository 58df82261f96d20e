"""The examination of a trained quantizer: are its codes any good, and if not, where is recall lost?

- `examine.examine` embeds and codes a split of a tree and returns an `Examination`.
- `health.measure` computes all figures from arrays alone; `codes` and `ranks` hold the single measures.
- `verdict.judge` turns figures into healthy, weak or broken, with reasons and advice.
- `report`, `plots` and `sheets` show the result: tables, JSON, plots, contact sheets of items.

This folder may import everything from `data` to `evaluate`; `train` asks it before it trains a decoder.
Import the modules by name: importing `genius.doctor` itself loads nothing.
"""
