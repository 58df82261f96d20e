"""A service's index from Python, over HTTP: `genius.Client` has the methods of `genius.Index`.

`client` holds `Client`, `transport` the HTTP calls and their JSON, and `remote` items and hits that fetch
their large parts when they are first read. It may import `index`, and those parts of
`serve` that need no web framework.
"""
