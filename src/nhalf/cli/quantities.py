"""Quantities of a command line: arguments that a sign makes look like options, and whole numbers."""

from __future__ import annotations

import re

import click

from nhalf import units
from nhalf.cli.help_pages import Grouped
from nhalf.errors import InputError


class Count(click.types.IntParamType):
    """A whole number of 1 or more in plain digits, which Python would read in any alphabet."""

    name = "count"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of a text; a default is one already."""
        del ctx
        return value if isinstance(value, int) else units.parse_count(str(value), where=param.opts[0] if param else "")


class WithQuantities(Grouped):
    """A command that refuses `-5us` as a negative quantity, and not as an option that it does not have."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments that are left; what follows an option is the option's own to refuse."""
        options = [each for each in self.params if isinstance(each, click.Option) and not each.is_flag]
        taking = {flag for option in options for flag in option.opts}
        for before, given in zip(["", *args], args, strict=False):
            if re.match(r"-[.\d]", given) and before not in taking:
                raise InputError(f"{given!r} is negative", where=f"nhalf {self.name}", allowed="5us 400GB/s")
        return super().parse_args(ctx, args)
