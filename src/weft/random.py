"""Random numbers, under the names of `numpy.random`."""

import sys

from weft.dsl import find_name

sys.modules[__name__] = find_name("random")
