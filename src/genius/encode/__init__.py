"""Images and texts to features: frozen encoders, their weights, and the feature cache.

Nothing is imported here, so that `import genius.encode` stays light. The names that other folders use:

- `encoder`: `Encoder`, `EncoderLoader` (the protocols) and `encoder_loader`, which opens one by name;
  `lite.Lite` is the embedded encoder, `clip.Clip` any CLIP or SigLIP, `blip.Blip` UniIR's BLIP
- `inputs.EncoderInputs`: the distinct images and texts of a collection
- `pipeline`: `encode` and `tree_features`, which encode a collection through the cache
- `features.Features`: the result, an artifact; `direct`: features of a few records without a cache
- `heads.Heads`, `clip_fusion.FusedClip`: torch modules that make one embedding of image and text features
- `onnx_graph.Graph`, `onnx_export.export`: ONNX graphs, written by hand or exported from torch

May import `data`, `storage`, `runtime`, `download` and `errors`. Only `heads`, `projection`, `clip*`,
`blip*`, `uniir` and `onnx_export` need torch or transformers: searching needs neither.
"""
