"""Prices of European options by the Black-Scholes formula, and of Asian options by simulation."""

import numpy as np

RATE, VOLATILITY, MATURITY, SPOT = 0.03, 0.25, 1.0, 100.0
STEPS = 50


def normal_cdf(x):
    """Approximate the standard normal distribution function by Abramowitz and Stegun 26.2.17."""
    t = 1 / (1 + 0.2316419 * np.abs(x))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi) * series
    return np.where(x >= 0, 1 - tail, tail)


def formula(spot, strike, years):
    width = VOLATILITY * np.sqrt(years)
    d1 = (np.log(spot / strike) + (RATE + 0.5 * VOLATILITY**2) * years) / width
    d2 = d1 - width
    discounted = strike * np.exp(-RATE * years)
    call = spot * normal_cdf(d1) - discounted * normal_cdf(d2)
    gamma = np.exp(-0.5 * d1 * d1) / np.sqrt(2 * np.pi) / (spot * width)
    return call, call - spot + discounted, normal_cdf(d1), gamma


def asian(paths, rng):
    dt = MATURITY / STEPS
    drift, spread = (RATE - 0.5 * VOLATILITY**2) * dt, VOLATILITY * np.sqrt(dt)
    up, down = np.full(paths, np.log(SPOT)), np.full(paths, np.log(SPOT))
    total, other = np.zeros(paths), np.zeros(paths)
    for _ in range(STEPS):
        noise = spread * rng.standard_normal(paths)
        up += drift + noise
        down += drift - noise
        total += np.exp(up)
        other += np.exp(down)
    pay = 0.5 * (np.maximum(total / STEPS - SPOT, 0) + np.maximum(other / STEPS - SPOT, 0))
    pay *= np.exp(-RATE * MATURITY)
    return pay.mean(), pay.std() / np.sqrt(paths)


def main(size):
    rng = np.random.default_rng(16)
    spot, strike = rng.uniform(50, 150, size), rng.uniform(50, 150, size)
    years = rng.uniform(0.1, 3, size)
    call, put, delta, gamma = formula(spot, strike, years)
    price, error = asian(size, rng)
    return call, put, delta, gamma, price, error
