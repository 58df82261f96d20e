"""The room where a model is examined: is its quantizer any good, and if not, where is recall lost?"""
