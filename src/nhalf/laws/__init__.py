"""Laws: pure, cited, element-wise formulas that return a `Term`."""
