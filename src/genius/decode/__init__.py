"""A query's vector becomes codes: decoders score the next code, level by level (paper §4.3).

`decoder.Decoder` is the protocol that beam search uses. `geometry.Geometry` needs no training; the learned
decoder is a small T5 (`t5.T5Decoder`), run by ONNX Runtime (`onnx_decoder.OnnxDecoder`) or torch
(`torch_decoder.TorchDecoder`), and `export.export_decoder` makes the graphs of the one from the other.
`beam_tree.BeamTree` is a search under way by either; `fused_decoder.FusedDecoder` adds geometry's scores to
theirs; `decoder.open_decoder` opens what a model has.

May import `genius.data`, `genius.encode`, `genius.quantize` and the modules at the top of the package.
Nothing is imported here, so that `import genius.decode` stays light.
"""
