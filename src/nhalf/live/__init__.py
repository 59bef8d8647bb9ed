"""Live: what a running server pays, term by term, and since when, from the metrics that it publishes."""
