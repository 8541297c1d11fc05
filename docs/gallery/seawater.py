"""Density of seawater along a section of the ocean, computed with UNESCO's equation of state EOS-80.

The temperature and salinity profiles are fictitious. The coefficients are from UNESCO technical papers in marine
science 44 (1983), pages 15 to 19.
"""

import numpy as np


def pure_water(t):
    return 999.842594 + t * (
        6.793952e-2 + t * (-9.095290e-3 + t * (1.001685e-4 + t * (-1.120083e-6 + t * 6.536332e-9)))
    )


def at_surface(s, t):
    a = 8.24493e-1 + t * (-4.0899e-3 + t * (7.6438e-5 + t * (-8.2467e-7 + t * 5.3875e-9)))
    b = -5.72466e-3 + t * (1.0227e-4 - t * 1.6546e-6)
    return pure_water(t) + s * a + s * np.sqrt(s) * b + 4.8314e-4 * s * s


def bulk_modulus(s, t, p):
    kw = 19652.21 + t * (148.4206 + t * (-2.327105 + t * (1.360477e-2 - t * 5.155288e-5)))
    aw = 3.239908 + t * (1.43713e-3 + t * (1.16092e-4 - t * 5.77905e-7))
    bw = 8.50935e-5 + t * (-6.12293e-6 + t * 5.2787e-8)
    slope = 54.6746 + t * (-0.603459 + t * (1.09987e-2 - t * 6.1670e-5))
    curve = 7.944e-2 + t * (1.6483e-2 - t * 5.3009e-4)
    k0 = kw + s * slope + s * np.sqrt(s) * curve
    a = aw + s * (2.2838e-3 + t * (-1.0981e-5 - t * 1.6078e-6)) + s * np.sqrt(s) * 1.91075e-4
    b = bw + s * (-9.9348e-7 + t * (2.0816e-8 + t * 9.1697e-10))
    return k0 + p * (a + p * b)


def main(size):
    pressure, latitude = np.meshgrid(np.linspace(0, 500, size), np.linspace(-60, 60, size), indexing="ij")
    warm = np.cos(np.pi * latitude / 180) ** 2
    temperature = 2 + 26 * warm * np.exp(-pressure / 60)
    salinity = 34.6 + 1.4 * np.exp(-((np.abs(latitude) - 25) ** 2) / 200) * np.exp(-pressure / 40)
    density = at_surface(salinity, temperature) / (1 - pressure / bulk_modulus(salinity, temperature, pressure))
    return density, temperature
