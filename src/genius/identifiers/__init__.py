"""Identifiers of other methods: what rivals of GENIUS generate instead of codes of a trained quantizer.

One file a method, behind one small protocol (`scheme.Scheme`): a method says how an item's identifier begins,
by its content, and how items that begin alike are numbered. `identifiers.Identifiers` gives every item one of
its own, new items too, and is searched like any other codes. None of them has code vectors, so there is no
geometry: a model with such identifiers searches by its learned decoder only.

A row of a table that rests on choices of ours is called "-like" (`scheme.row_name`); each file says at its
head what is published, where we know it from, and what is our choice.

May import: errors, tensors, data, encode, quantize.
"""
