"""Moving statistics of a signal with gaps, and ranks of the elements of a table."""

import bottleneck as bn
import numpy as np


def main():
    rng = np.random.default_rng(13)
    signal = np.cumsum(rng.standard_normal(2_000))
    signal[rng.random(2_000) < 0.05] = np.nan
    print(np.round([bn.nanmean(signal), bn.nanstd(signal), bn.nanmedian(signal)], 5))
    mean = bn.move_mean(signal, window=20, min_count=5)
    spread = bn.move_std(signal, window=20, min_count=5)
    print(np.round(mean[::250], 4), np.round(spread[::250], 4))
    unusual = np.abs(signal - mean) > 2 * spread
    print(int(np.sum(unusual)), int(bn.nanargmax(signal)), bn.anynan(signal))
    table = rng.random((100, 50))
    print(np.round(bn.nansum(table, axis=0)[:5], 5), bn.rankdata(table[0])[:5])
    print(np.round(np.sort(bn.partition(table[3], 5)[:5]), 5))
    print(np.round(bn.move_max(signal, 50, 1)[::300], 4), np.round(bn.push(signal)[-3:], 4))


if __name__ == "__main__":
    main()
