"""The room of algorithms over arrays: dense search, the tree of codes, and beam search over it."""
