"""Fourier transforms, under the names of `numpy.fft`."""

import sys

from weft.dsl import find_name

sys.modules[__name__] = find_name("fft")
