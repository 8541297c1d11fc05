"""Propagate the errors of a fit."""

import numpy as np
from uncertainties import correlated_values, ufloat, unumpy


def main():
    rng = np.random.default_rng(33)
    x = np.linspace(0, 5, 200)
    y = 2.0 + 1.5 * x + 0.3 * rng.normal(size=x.size)
    coefficients, covariance = np.polyfit(x, y, 1, cov=True)
    slope, intercept = correlated_values(coefficients, covariance)
    print(f"{slope:.4f} {intercept:.4f} {-intercept / slope:.4f}")
    values = unumpy.uarray(y[:150], np.full(150, 0.3))
    logs = unumpy.log(values**2 + 1)
    print(np.round(unumpy.nominal_values(logs)[::40], 5), np.round(unumpy.std_devs(logs)[::40], 5))
    print(f"{values.sum():.4f} {values.mean():.5f}")
    length, width = ufloat(2.0, 0.1), ufloat(3.0, 0.2)
    print(f"{length * width:.3f}")
    predicted = slope * x[:5] + intercept
    print(np.round([p.std_dev for p in predicted], 5))


if __name__ == "__main__":
    main()
