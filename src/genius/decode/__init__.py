"""The room where a query's code is generated: what a decoder is, and the one that needs no training."""
