"""Loading: files, flags and scenario files become scenarios whose every number has an origin."""

from __future__ import annotations

from nhalf.loading.degrees import Degrees as Degrees
from nhalf.loading.request import Default as Default
from nhalf.loading.request import Loaded as Loaded
from nhalf.loading.request import Request as Request
from nhalf.loading.request import load as load
from nhalf.loading.request import scenarios as scenarios
from nhalf.loading.request import with_peers as with_peers
