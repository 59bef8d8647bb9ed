"""Evidence: measured times from logs, fitted to a line, to segments and to a curve, with intervals and refusals."""
