"""Short test cases that use weft arrays together with other packages, such as PyTorch and JAX.

The command ``python -m tests.clients.interop PACKAGE`` prints the outcomes as JSON.

A case is a function of an array of floats, an array of integers and the namespace, `weft` or `numpy`. It "fails", with
a reason, if it raises an error on weft or if the results differ. It works "by a copy" if it returns a NumPy array for
NumPy arrays and for weft arrays. Otherwise it "works".
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import weft as wf

Case = Callable[[Any, Any, Any], Any]
FLOATS = np.linspace(0.1, 2.0, 24).reshape(6, 4)
INTEGERS = np.array([0, 2])


def torch_cases() -> dict[str, Case]:
    torch = import_module("torch")
    data = import_module("torch.utils.data")
    tensor = torch.ones(6, 4, dtype=torch.float64)
    return {
        "torch.as_tensor(x)": lambda x, i, xp: torch.as_tensor(x),
        "torch.tensor(x)": lambda x, i, xp: torch.tensor(x),
        "torch.from_dlpack(x)": lambda x, i, xp: torch.from_dlpack(x),
        "torch.from_numpy(x)": lambda x, i, xp: torch.from_numpy(x),
        "tensor + x": lambda x, i, xp: tensor + x,
        "x * tensor": lambda x, i, xp: torch.as_tensor(xp.multiply(x, tensor)),
        "tensor[i]": lambda x, i, xp: tensor[i],
        "default_collate([x, x])": lambda x, i, xp: data.default_collate([x, x]),
        "DataLoader over x": lambda x, i, xp: next(iter(data.DataLoader([x[0], x[1]], batch_size=2))),
        "xp.asarray(tensor)": lambda x, i, xp: xp.asarray(tensor),
        "xp.from_dlpack(tensor)": lambda x, i, xp: xp.from_dlpack(tensor),
        "xp.from_dlpack(bfloat16 tensor)": lambda x, i, xp: (
            wf.from_dlpack(tensor.bfloat16()).astype(np.float64) if xp is wf else np.ones((6, 4))
        ),
    }


def jax_cases() -> dict[str, Case]:
    jax = import_module("jax")
    jnp = import_module("jax.numpy")
    jax.config.update("jax_enable_x64", True)
    ones = jnp.ones((6, 4))
    return {
        "jnp.asarray(x)": lambda x, i, xp: jnp.asarray(x),
        "jnp.sin(x)": lambda x, i, xp: jnp.sin(x),
        "jax.jit(f)(x)": lambda x, i, xp: jax.jit(lambda y: jnp.sin(y) * 2)(x),
        "jax.grad(f)(x)": lambda x, i, xp: jax.grad(lambda y: jnp.sum(y**2))(x),
        "jax.vmap(f)(x)": lambda x, i, xp: jax.vmap(jnp.sum)(x),
        "x + jax_array": lambda x, i, xp: x + ones,
        "jax_array + x": lambda x, i, xp: ones + x,
        "jax_array[i]": lambda x, i, xp: ones[i],
        "jax.dlpack.from_dlpack(x)": lambda x, i, xp: jax.dlpack.from_dlpack(x),
        "xp.asarray(jax_array)": lambda x, i, xp: xp.asarray(ones),
        "jax.tree.map(f, {'a': x})": lambda x, i, xp: jax.tree.map(lambda y: y * 2, {"a": x})["a"],
    }


def einops_cases() -> dict[str, Case]:
    einops = import_module("einops")
    return {
        "rearrange": lambda x, i, xp: einops.rearrange(x, "a (b c) -> b a c", c=2),
        "reduce": lambda x, i, xp: einops.reduce(x, "a (b c) -> a b", "mean", c=2),
        "repeat": lambda x, i, xp: einops.repeat(x, "a b -> a b c", c=2),
        "einsum": lambda x, i, xp: einops.einsum(x, x, "a b, c b -> a c"),
        "pack": lambda x, i, xp: einops.pack([x, x], "* b")[0],
    }


def sklearn_cases() -> dict[str, Case]:
    sklearn = import_module("sklearn")
    modules = {name: import_module(f"sklearn.{name}") for name in "cluster decomposition linear_model mixture".split()}
    modules |= {
        name: import_module(f"sklearn.{name}") for name in "metrics neighbors preprocessing svm ensemble".split()
    }

    def dispatched(function: Case) -> Case:
        def run(x: Any, i: Any, xp: Any) -> Any:
            with sklearn.config_context(array_api_dispatch=True):
                return function(x, i, xp)

        return run

    labels = np.array([0, 1, 0, 1, 1, 0])

    def fit(module: str, name: str, method: str = "predict", target: Any = None, **options: Any) -> Case:
        def run(x: Any, i: Any, xp: Any) -> Any:
            model = getattr(modules[module], name)(**options)
            model.fit(x) if target is None else model.fit(x, xp.asarray(target))
            return getattr(model, method)(x)

        return run

    cases = {
        "StandardScaler": fit("preprocessing", "StandardScaler", "transform"),
        "MinMaxScaler": fit("preprocessing", "MinMaxScaler", "transform"),
        "PCA": fit("decomposition", "PCA", "transform", n_components=2, svd_solver="full"),
        "LinearRegression": fit("linear_model", "LinearRegression", target=FLOATS[:, 0]),
        "Ridge": fit("linear_model", "Ridge", target=FLOATS[:, 0], solver="svd"),
        "LogisticRegression": fit("linear_model", "LogisticRegression", target=labels),
        "KMeans": fit("cluster", "KMeans", "transform", n_clusters=2, random_state=0, n_init=1),
        "KNeighborsClassifier": fit("neighbors", "KNeighborsClassifier", target=labels, n_neighbors=2),
        "SVC": fit("svm", "SVC", target=labels),
        "RandomForestClassifier": fit(
            "ensemble", "RandomForestClassifier", target=labels, random_state=0, n_estimators=5
        ),
        "GaussianMixture": fit(
            "mixture", "GaussianMixture", n_components=2, random_state=0, init_params="random_from_data"
        ),
        "metrics.accuracy_score": lambda x, i, xp: modules["metrics"].accuracy_score(i, i),
        "metrics.r2_score": lambda x, i, xp: modules["metrics"].r2_score(x[:, 0], x[:, 1]),
        "metrics.pairwise_distances": lambda x, i, xp: modules["metrics"].pairwise_distances(x),
    }
    by_dispatch = ("StandardScaler", "MinMaxScaler", "PCA", "Ridge", "GaussianMixture", "metrics.accuracy_score")
    return cases | {f"{name}, array_api_dispatch=True": dispatched(cases[name]) for name in by_dispatch}


def scipy_cases() -> dict[str, Case]:
    names = "fft integrate interpolate linalg ndimage optimize signal sparse spatial special stats".split()
    s = {name: import_module(f"scipy.{name}") for name in names}
    smooth = np.sin(np.arange(64.0) / 5)
    return {
        "fft.fft": lambda x, i, xp: s["fft"].fft(x),
        "integrate.simpson": lambda x, i, xp: s["integrate"].simpson(x, dx=0.1),
        "integrate.cumulative_trapezoid": lambda x, i, xp: s["integrate"].cumulative_trapezoid(x),
        "interpolate.CubicSpline": lambda x, i, xp: s["interpolate"].CubicSpline(x[:, 0], x)(x[:, 0]),
        "linalg.svdvals": lambda x, i, xp: s["linalg"].svdvals(x),
        "linalg.solve": lambda x, i, xp: s["linalg"].solve(x[:4] + 3 * xp.eye(4), x[:4, 0]),
        "ndimage.gaussian_filter": lambda x, i, xp: s["ndimage"].gaussian_filter(x, 1.0),
        "optimize.minimize": lambda x, i, xp: s["optimize"].minimize(lambda v: ((v - 1) ** 2).sum(), x[0]).x,
        "optimize.least_squares": lambda x, i, xp: s["optimize"].least_squares(lambda v: v - 1, x[0]).x,
        "signal.filtfilt": lambda x, i, xp: s["signal"].filtfilt(*s["signal"].butter(3, 0.2), xp.asarray(smooth)),
        "signal.convolve": lambda x, i, xp: s["signal"].convolve(x, x),
        "signal.welch": lambda x, i, xp: s["signal"].welch(xp.asarray(smooth), nperseg=16)[1],
        "sparse.csr_array(x)": lambda x, i, xp: s["sparse"].csr_array(x).toarray(),
        "sparse @ x": lambda x, i, xp: s["sparse"].csr_array(FLOATS.T) @ x,
        "spatial.distance.cdist": lambda x, i, xp: s["spatial"].distance.cdist(x, x),
        "special.erf": lambda x, i, xp: s["special"].erf(x),
        "stats.zscore": lambda x, i, xp: s["stats"].zscore(x),
        "stats.ttest_ind": lambda x, i, xp: s["stats"].ttest_ind(x[0], x[1]).pvalue,
    }


def xarray_cases() -> dict[str, Case]:
    xr = import_module("xarray")
    import_module("dask.array")

    def labelled(x: Any) -> Any:
        return xr.DataArray(x, dims=("time", "place"), coords={"time": np.arange(6)})

    return {
        "a.mean('time').data": lambda x, i, xp: labelled(x).mean("time").data,
        "(a - a.mean()).data": lambda x, i, xp: (labelled(x) - labelled(x).mean()).data,
        "a.sel(time=[1, 3]).data": lambda x, i, xp: labelled(x).sel(time=[1, 3]).data,
        "a.rolling(time=2).sum().data": lambda x, i, xp: labelled(x).rolling(time=2).sum().data,
        "a.groupby(time % 2).mean().data": lambda x, i, xp: (
            labelled(x).groupby(xr.DataArray(np.arange(6) % 2, dims="time")).mean().data
        ),
        "xr.where(a > 1, a, 0).data": lambda x, i, xp: xr.where(labelled(x) > 1, labelled(x), 0).data,
        "xr.concat([a, a], 'time').data": lambda x, i, xp: xr.concat([labelled(x), labelled(x)], "time").data,
        "a.interp(time=[0.5]).data": lambda x, i, xp: labelled(x).interp(time=[0.5]).data,
        "a.chunk().std('place').compute().data": lambda x, i, xp: labelled(x).chunk(time=2).std("place").compute().data,
        "x + a": lambda x, i, xp: (x + labelled(x)).data,
        "a + x": lambda x, i, xp: (labelled(x) + x).data,
        "a.to_pandas()": lambda x, i, xp: labelled(x).to_pandas().to_numpy(),
    }


def pandas_cases() -> dict[str, Case]:
    pd = import_module("pandas")
    return {
        "pd.Series(x[0])": lambda x, i, xp: pd.Series(x[0]).to_numpy(),
        "pd.DataFrame(x)": lambda x, i, xp: pd.DataFrame(x).to_numpy(),
        "series + x": lambda x, i, xp: (pd.Series(FLOATS[0]) + x[0]).to_numpy(),
        "x + series": lambda x, i, xp: (x[0] + pd.Series(FLOATS[0])).to_numpy(),
        "frame.iloc[i]": lambda x, i, xp: pd.DataFrame(FLOATS).iloc[i].to_numpy(),
        "series[x > 1]": lambda x, i, xp: pd.Series(FLOATS[0])[x[0] > 0.2].to_numpy(),
        "frame['new'] = x": lambda x, i, xp: pd.DataFrame(FLOATS).assign(new=x[:, 0])["new"].to_numpy(),
        "pd.unique(x)": lambda x, i, xp: pd.unique(xp.concatenate([x[0], x[0]])),
        "pd.cut(x, 3)": lambda x, i, xp: np.asarray(pd.cut(x[0], 3).codes),
        "series.map of x": lambda x, i, xp: pd.Series(x[0]).rolling(2).mean().fillna(0).to_numpy(),
    }


PACKAGES: dict[str, Callable[[], dict[str, Case]]] = {
    "torch": torch_cases,
    "jax": jax_cases,
    "einops": einops_cases,
    "scipy": scipy_cases,
    "sklearn": sklearn_cases,
    "xarray": xarray_cases,
    "pandas": pandas_cases,
}


def as_numpy(value: Any) -> np.ndarray:
    """Return a result as a NumPy array, for comparison."""
    return np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, changed so that it is the same in every process.

    Paths are removed. The names of modules are sorted, because SciPy prints sets of modules.
    """
    line = re.sub(r"(<module '[^']*') from '[^']*'>", r"\1>", (str(error).strip().splitlines() or [""])[0])
    module = re.compile("<module '[^']*'>")
    names = iter(sorted(module.findall(line)))
    return module.sub(lambda match: next(names), line)


def judge(case: Case) -> str:
    """Run a case and return its outcome: "works", "by a copy", or "fails: " and the reason."""
    wanted = case(FLOATS.copy(), INTEGERS.copy(), np)
    try:
        found = case(wf.asarray(FLOATS), wf.asarray(INTEGERS), wf)
    except Exception as error:
        return f"fails: {type(error).__name__}: {first_line(error)[:110]}"
    if not np.allclose(as_numpy(found), as_numpy(wanted), rtol=1e-6, equal_nan=True):
        return "fails: another result"
    return "by a copy" if isinstance(found, np.ndarray) and isinstance(wanted, np.ndarray) else "works"


def main(package: str) -> None:
    """Print the outcome of each case of a package, and the package's version."""
    warnings.simplefilter("ignore")
    cases = PACKAGES[package]()
    version = getattr(sys.modules.get(package), "__version__", "")
    print(json.dumps({"version": version, "cases": {name: judge(case) for name, case in cases.items()}}))


if __name__ == "__main__":
    main(sys.argv[1])
