"""Figures: one chart a module, each from the nouns of an answer to a Vega-Lite chart with its table and its words."""
