"""An ensemble of epidemics (SIR model) with random contacts and a lockdown."""

import numpy as np

POPULATION, DAYS = 1e5, 160


def step(s, i, r, contact, recovery, rng):
    infected = contact * s * i / POPULATION
    recovered = recovery * i
    infected = infected + np.sqrt(infected) * rng.standard_normal(s.shape)
    recovered = recovered + np.sqrt(recovered) * rng.standard_normal(s.shape)
    infected = np.minimum(np.maximum(infected, 0), s)
    recovered = np.minimum(np.maximum(recovered, 0), i)
    return s - infected, i + infected - recovered, r + recovered


def main(size):
    rng = np.random.default_rng(10)
    contact = rng.normal(0.35, 0.04, size)
    recovery = rng.normal(0.1, 0.01, size)
    s, i, r = np.full(size, POPULATION - 10), np.full(size, 10.0), np.zeros(size)
    peak, day_of_peak = np.zeros(size), np.zeros(size, dtype=np.int64)
    locked = np.zeros(size, dtype=bool)
    curves = np.empty((DAYS, 3))
    for day in range(DAYS):
        locked = np.where(locked, i > 0.01 * POPULATION, i > 0.05 * POPULATION)
        s, i, r = step(s, i, r, np.where(locked, 0.4 * contact, contact), recovery, rng)
        higher = i > peak
        peak[higher] = i[higher]
        day_of_peak[higher] = day
        curves[day] = i.mean(), i.std(), locked.mean()
    reproduction = contact / recovery
    order = np.argsort(reproduction)
    tenths = np.array([peak[part].mean() for part in np.array_split(order, 10)])
    return (
        curves,
        tenths,
        np.percentile(r / POPULATION, [5, 50, 95]),
        day_of_peak.mean(),
        np.corrcoef(reproduction, peak)[0, 1],
    )
