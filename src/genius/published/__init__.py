"""Models that others published become models of genius: GENIUS's own files, and UniIR's.

`files.PublishedFile` is the weights of one file, by name and shape, before a number is read;
`quantizer_file` and `decoder_file` check them strictly and turn them into our own fusion, codebooks and
network, and `blip_file` does so for UniIR's BLIP; its CLIP is converted by `genius.encode.uniir`.
`tokenizer_folder` is where their tokenizers come from. `run.import_model` writes the model folder. Nothing
in the files is executed (`genius.encode.checkpoints`).

May import `genius.data`, `genius.encode`, `genius.quantize`, `genius.decode`, `genius.model`,
`genius.train` and the modules at the top of the package. Nothing is imported here.
"""
