"""Collective laws by family: the time of each algorithm, as fixed time and transfer; `table.LAWS` is their register."""
