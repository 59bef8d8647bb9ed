"""The catalogue: systems, engines, libraries, links and models, every value with its source."""
