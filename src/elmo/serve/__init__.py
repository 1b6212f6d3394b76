"""Models behind HTTP: FastAPI routes, batching of requests, a web page. `elmo serve` runs it."""
