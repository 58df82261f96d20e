"""An index on the network: an HTTP service with a web page, and a client. Nothing here imports torch."""
