"""Evaluate everyday pandas expressions with NumPy arrays."""

import warnings

import numpy as np
import pandas as pd


def show(name, function):
    value = function()
    if isinstance(value, (pd.DataFrame, pd.Series)):
        value = value.round(6).head(3).to_string()
    elif isinstance(value, np.ndarray):
        numbers = np.asarray(value).ravel()[:3]
        value = value.shape, str(value.dtype), np.round(numbers.astype(float), 5).tolist()
    elif isinstance(value, float):
        value = round(float(value), 6)
    print(name, value)


def select(df, x, k, t, names):
    show("mask", lambda: df[x > 1])
    show("loc", lambda: df.loc[x > 1, "x"])

    def setloc():
        d = df.copy()
        d.loc[x > 1, "x"] = 0
        d.loc[x < -1, "x"] = x[x < -1] * 2
        return d

    show("setloc", setloc)
    show("iloc", lambda: df.iloc[np.argsort(x)])
    show("iloc2", lambda: df.iloc[np.flatnonzero(x > 1)])
    show("take", lambda: df.take(np.argsort(x)[:5]))
    show("groupby", lambda: df.groupby(k).x.mean())
    show("groupby2", lambda: pd.Series(x).groupby(k % 3).agg(["mean", "std"]))
    show("cut", lambda: pd.Series(pd.cut(x, np.linspace(-3, 3, 7))).value_counts(sort=False))
    show("qcut", lambda: pd.Series(pd.qcut(x, 4, labels=False)))
    show("isin", lambda: df[df.k.isin(k[:3])])


def change(df, x, k, t, names):
    show("where", lambda: np.where(df.x > 0, df.x, 0))
    show("where2", lambda: df.x.where(x > 0, x * 2))
    show("mask2", lambda: df.x.mask(x > 0))
    show("fillna", lambda: pd.Series(np.where(x > 0, x, np.nan)).fillna(0))
    show("interp", lambda: pd.Series(np.where(x > 0, x, np.nan)).interpolate())
    show("rolling", lambda: pd.Series(x).rolling(5).mean().dropna())
    show("assign", lambda: df.assign(y=x * 2, z=np.exp(x)))
    show("insert", lambda: (lambda d: (d.insert(0, "y", x + 1), d)[1])(df.copy()))
    show("concat", lambda: pd.concat([df, pd.DataFrame({"y": x * 2})], axis=1))
    show("merge", lambda: df.merge(pd.DataFrame({"k": np.arange(20), "v": np.arange(20) * 1.5}), on="k"))
    show("merge2", lambda: df.merge(pd.DataFrame({"t": t, "v": x * 3}), on="t"))
    show("index", lambda: pd.Series(x, index=t).loc[1:1.001])
    show("reindex", lambda: pd.Series(x, index=np.arange(len(x))).reindex(np.arange(len(x))[::-1]))
    show("tsidx", lambda: pd.Series(x, index=pd.to_datetime(np.arange(len(x)), unit="s")).resample("1h").mean())
    show("daterange", lambda: pd.Series(x, index=pd.date_range("2020", periods=len(x), freq="h")).resample("D").sum())
    show("td", lambda: pd.Series(pd.to_timedelta(k, unit="D")))


def combine(df, x, k, t, names):
    show("get_dummies", lambda: pd.get_dummies(k))
    show("factorize", lambda: pd.factorize(k)[0])
    show("unique", lambda: pd.unique(k))
    show("crosstab", lambda: pd.crosstab(k, x > 0))
    show("pivot", lambda: df.assign(s=x > 0).pivot_table(values="x", index="k", columns="s"))
    show("corr", lambda: df.corr())
    show("corrcoef", lambda: np.corrcoef(df.x, x * 2 + t))
    show("hist", lambda: np.histogram(df.x, bins=10)[0])
    show("search", lambda: np.searchsorted(t, df.x))
    show("digit", lambda: np.digitize(df.x, np.linspace(-3, 3, 7)))
    show("select", lambda: np.select([df.x > 1, df.x < -1], [1, 2], 0))
    show("addser", lambda: df.x + x)
    show("raddser", lambda: x + df.x)
    show("matmul", lambda: df[["x", "t"]].T @ x)
    show("dot", lambda: x @ df.x)
    show("npdot", lambda: np.dot(x, df.x))
    show("polyfit", lambda: np.polyfit(t, df.x, 2))
    show("lstsq", lambda: np.linalg.lstsq(np.column_stack([t, np.ones(len(t))]), df.x, rcond=None)[0])
    show("apply", lambda: df.apply(np.mean))
    show("agg", lambda: df.agg(["min", "max"]))
    show("map", lambda: df.k.map(dict(zip(range(20), np.arange(20) * 2.0, strict=True))))
    show("replace", lambda: df.k.replace(3, -1))
    show("clip", lambda: df.x.clip(-1, 1))
    show("np.clip", lambda: np.clip(df.x, -1, 1))
    show("ewm", lambda: pd.Series(x).ewm(span=5).mean())


def reduce(df, x, k, t, names):
    show("cumsum", lambda: np.cumsum(df.x))
    show("diff", lambda: np.diff(df.x))
    show("sort", lambda: np.sort(df.x))
    show("percentile", lambda: np.percentile(df.x, [10, 90]))
    show("quant", lambda: pd.Series(x).quantile([0.1, 0.9]))
    show("values", lambda: df.values * 2)
    show("tonumpy", lambda: df.x.to_numpy()[x > 1].mean())
    show("cat", lambda: pd.Series(pd.Categorical(names)).value_counts())
    show("str", lambda: pd.Series(names).str.upper())
    show("strgroup", lambda: df.groupby(names).x.sum())
    show("query", lambda: df.query("x > 1 and k < 5"))
    show("eval", lambda: df.eval("x*2 + t"))
    show("csv", lambda: len(df.to_csv(index=False)))
    show("describe", lambda: df.describe())
    show("idx bool", lambda: pd.Series(x)[x > 2])
    show("ser set", lambda: (lambda s: (s.__setitem__(x > 2, 0.0), s)[1])(pd.Series(x)))
    show("col set", lambda: (lambda d: (d.__setitem__("q", x > 0), d)[1])(df.copy()))
    show("dtype", lambda: str(df.assign(q=x > 0, r=x.astype("f4"), s=k.astype("u1")).dtypes.to_dict()))
    show("nunique", lambda: df.groupby(k).t.nunique())
    show("rank", lambda: pd.Series(x).rank())
    show("multi", lambda: pd.MultiIndex.from_arrays([k, k % 3]).nunique())
    show("melt", lambda: df.melt(id_vars="k"))
    show("explode", lambda: pd.Series([x[:2], x[2:4]]).explode())
    show("iter", lambda: sum(1 for r in df[:5].itertuples()))
    show("mean", lambda: np.mean(df.x))
    show("std", lambda: np.std(df.x))
    show("nanmean", lambda: np.nanmean(df.x))
    show("isnan", lambda: np.isnan(df.x))
    show("array_equal", lambda: np.array_equal(df.x, x))
    show("allclose", lambda: np.allclose(df.x, x))
    show("asarray", lambda: np.asarray(df.x) + 1)
    show("stack", lambda: np.column_stack([df.x, x]))
    show("concat2", lambda: np.concatenate([df.x, x]))
    show("bincount", lambda: np.bincount(df.k, weights=x))
    show("unique", lambda: np.unique(df.k, return_counts=True)[1])
    show("testing", lambda: pd.testing.assert_series_equal(pd.Series(x), df.x, check_names=False))


def main():
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    n = 30000
    x = rng.normal(size=n)
    k = rng.integers(0, 20, n)
    t = np.linspace(0, 10, n)
    names = np.array(list("abcd"))[k % 4]
    df = pd.DataFrame({"x": x, "k": k, "t": t})
    select(df, x, k, t, names)
    change(df, x, k, t, names)
    combine(df, x, k, t, names)
    reduce(df, x, k, t, names)


if __name__ == "__main__":
    main()
