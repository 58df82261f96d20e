"""Vectors become codes: residual quantization with a modality code in front (paper §4.2).

`quantizer.Quantizer` codes vectors and needs no torch; `fusion_inputs.FusionInputs` holds what the fusion
reads of records. For training there are `codebooks.Codebooks` and `fusion.Fusion`, which import torch.
`nearest.Nearest` finds exact codes quickly, `kmeans.kmeans` starts codebooks.

May import `genius.data`, `genius.encode` and the modules at the top of the package. Nothing is imported here,
so that `import genius.quantize` stays light.
"""
