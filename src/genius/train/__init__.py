"""Training of models: recipes, one loop for all stages, and the stages themselves.

`run.py` is the way in: `read_recipe` reads a TOML file into a `Recipe`, `plan` and `duration` say what
training will do and for how long, and `train_model` does it. The stages are `towers.py` (fine-tunes a CLIP),
`heads.py` (stage 0), `quantizer.py` (stage 1) and `decoder.py` (stage 2); each is a `loop.Stage`. Nothing is
imported here, since training needs torch. The folder may import from all folders before it (`data` to
`doctor`); of those after it only `cli` uses it.
"""
