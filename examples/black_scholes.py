"""Prices of European options, computed with the Black-Scholes formula.

The cumulative normal distribution uses formula 26.2.17 of Abramowitz and Stegun, because NumPy has no erf function.
Usage: black_scholes.py [number of options]
"""

import sys

import numpy as np


def normal_cdf(x):
    k = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    poly = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi) * poly
    return np.where(x >= 0, 1.0 - tail, tail)


def price(spot, strike, years, rate, volatility):
    root = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / root
    d2 = d1 - root
    discounted = strike * np.exp(-rate * years)
    call = spot * normal_cdf(d1) - discounted * normal_cdf(d2)
    put = call - spot + discounted
    return call, put


count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
random = np.random.default_rng(7)
spot = random.uniform(10, 50, count)
strike = random.uniform(10, 50, count)
years = random.uniform(0.2, 2, count)
call, put = price(spot, strike, years, 0.03, 0.25)
print(f"{count} options")
print(f"mean call {call.mean():.6f}, mean put {put.mean():.6f}, dearest call {call.max():.6f}")
