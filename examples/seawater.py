"""Density of seawater, computed with UNESCO's international equation of state EOS-80.

Coefficients: UNESCO technical papers in marine science 44 (1983), pages 15 to 19. The published check value is
density(40, 40 degC, 1000 bar) = 1059.82037 kg/m3.
Usage: seawater.py [number of points]
"""

import sys

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
    root = np.sqrt(s)
    kw = 19652.21 + t * (148.4206 + t * (-2.327105 + t * (1.360477e-2 - t * 5.155288e-5)))
    aw = 3.239908 + t * (1.43713e-3 + t * (1.16092e-4 - t * 5.77905e-7))
    bw = 8.50935e-5 + t * (-6.12293e-6 + t * 5.2787e-8)
    k0 = (
        kw
        + s * (54.6746 + t * (-0.603459 + t * (1.09987e-2 - t * 6.1670e-5)))
        + s * root * (7.944e-2 + t * (1.6483e-2 - t * 5.3009e-4))
    )
    a = aw + s * (2.2838e-3 + t * (-1.0981e-5 - t * 1.6078e-6)) + s * root * 1.91075e-4
    b = bw + s * (-9.9348e-7 + t * (2.0816e-8 + t * 9.1697e-10))
    return k0 + p * (a + p * b)


def density(s, t, p):
    """Return the density in kg/m3 from practical salinity, temperature in degC (IPTS-68) and pressure in bar."""
    return at_surface(s, t) / (1.0 - p / bulk_modulus(s, t, p))


count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
check = density(np.array([40.0]), np.array([40.0]), np.array([1000.0]))
print(f"check value {check[0]:.5f} kg/m3 (published: 1059.82037)")
random = np.random.default_rng(3)
salinity = random.uniform(30, 40, count)
temperature = random.uniform(-2, 30, count)
pressure = random.uniform(0, 600, count)
rho = density(salinity, temperature, pressure)
print(f"{count} points, mean density {rho.mean():.4f}, range {rho.min():.4f} to {rho.max():.4f} kg/m3")
