"""Ordinary least squares, with diagnostics."""

import numpy as np
import statsmodels.api as sm


def main():
    rng = np.random.default_rng(11)
    x = np.linspace(0, 10, 200)
    design = np.column_stack((x, x**2))
    beta = np.array([1, 0.1, 10])
    design = sm.add_constant(design)
    y = np.dot(design, beta) + rng.normal(size=200)
    results = sm.OLS(y, design).fit()
    print(np.round(results.params, 4), np.round(results.bse, 4), np.round(results.rsquared, 5))
    print(np.round(results.conf_int(), 3))
    residual = np.asarray(results.resid)
    print(np.round(np.sum(residual**2), 4), np.round(sm.stats.durbin_watson(residual), 4))
    print(np.round(results.predict(design)[:5], 4))


if __name__ == "__main__":
    main()
