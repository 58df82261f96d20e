"""An index over HTTP: a JSON API and a web page, for `genius serve`.

`genius.serve.server.serve` runs a service, `genius.serve.app.create_app` is its ASGI application, and
`genius.serve.config` holds its `Settings` and `Limits`. A request passes `middleware` (checks), `app`
(routes), `requests` and `schemas` (parsing), `service` (the work, in `batching` and `thread_pool`) and
`responses`.

It may import everything up to `index`, and nothing here imports torch. `client` uses `config`, `atlas` and
`thumbnails` from here, so these don't import fastapi, and this file imports nothing.
"""
