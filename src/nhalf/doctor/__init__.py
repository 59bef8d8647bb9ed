"""The doctor: whether measured collectives are normal, and the best explanation where they are not."""
