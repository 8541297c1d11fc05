"""Hypothesis tests, kernel density estimation, and the bootstrap."""

import numpy as np
from scipy import stats


def main():
    rng = np.random.default_rng(8)
    a, b = rng.normal(5.0, 1.0, 300), rng.normal(5.2, 1.3, 400)
    test = stats.ttest_ind(a, b, equal_var=False)
    print(np.round(test.statistic, 5), np.round(test.pvalue, 5))
    print(np.round(stats.mannwhitneyu(a, b).pvalue, 5), np.round(stats.ks_2samp(a, b).pvalue, 5))
    described = stats.describe(a)
    print(described.nobs, np.round([described.mean, described.variance, described.skewness], 5))
    density = stats.gaussian_kde(np.concatenate([a, b]))
    print(np.round(density(np.linspace(2, 8, 7)), 5))
    print(np.round(stats.norm.fit(b), 5), np.round(stats.norm.ppf([0.025, 0.975], *stats.norm.fit(b)), 5))
    line = stats.linregress(a, 2 * a + 0.5 * rng.standard_normal(a.size))
    print(np.round([line.slope, line.intercept, line.rvalue], 5))
    counts, edges = np.histogram(b, bins=10)
    expected = b.size * np.diff(stats.norm.cdf(edges, *stats.norm.fit(b)))
    print(np.round(stats.chisquare(counts, expected * counts.sum() / expected.sum()).statistic, 4))
    interval = stats.bootstrap((a,), np.mean, n_resamples=500, rng=np.random.default_rng(9)).confidence_interval
    print(np.round([interval.low, interval.high], 4))
    print(np.round(stats.spearmanr(a, a**3 + rng.normal(0, 20, 300)).statistic, 5), np.round(stats.zscore(a)[:3], 4))


if __name__ == "__main__":
    main()
