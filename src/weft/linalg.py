"""Linear algebra, under the names of `numpy.linalg`."""

import sys

from weft.dsl import find_name

sys.modules[__name__] = find_name("linalg")
