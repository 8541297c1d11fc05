"""Logistic regression and analysis of variance on a data frame, and an autoregression."""

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from statsmodels.tsa.ar_model import AutoReg


def main():
    rng = np.random.default_rng(12)
    x, group = rng.normal(size=600), rng.integers(0, 3, 600)
    chance = 1 / (1 + np.exp(-(0.5 + 1.2 * x - 0.7 * (group == 2))))
    frame = pd.DataFrame({"y": (rng.random(600) < chance).astype(int), "x": x, "group": group})
    fit = smf.logit("y ~ x + C(group)", frame).fit(disp=0)
    print(fit.params.round(4).to_string())
    print(np.round(fit.predict(frame).to_numpy()[:5], 4), np.round(fit.llf, 4))
    table = sm.stats.anova_lm(smf.ols("x ~ C(group)", frame).fit())
    print(table.round(4).to_string())
    series = np.zeros(500)
    noise = rng.normal(size=500)
    for k in range(2, 500):
        series[k] = 0.6 * series[k - 1] - 0.2 * series[k - 2] + noise[k]
    fitted = AutoReg(pd.Series(series), lags=2).fit()
    print(fitted.params.round(4).to_list())


if __name__ == "__main__":
    main()
