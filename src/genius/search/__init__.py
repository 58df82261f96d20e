"""The room of algorithms over arrays: exact and approximate dense search."""
