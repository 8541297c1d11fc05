"""Fit two peaks on a background, and a damped oscillation."""

import numpy as np
from lmfit import Minimizer, Parameters
from lmfit.models import ExponentialModel, GaussianModel


def residual(params, x, data):
    v = params.valuesdict()
    return v["amp"] * np.sin(x * v["omega"] + v["shift"]) * np.exp(-x * x * v["decay"]) - data


def main():
    rng = np.random.default_rng(27)
    x = np.linspace(0, 100, 250)
    y = 90 * np.exp(-x / 30) + 60 * np.exp(-((x - 35) ** 2) / 50) + 40 * np.exp(-((x - 60) ** 2) / 90)
    y += rng.normal(0, 1.0, x.size)
    background, first, second = ExponentialModel(prefix="e_"), GaussianModel(prefix="a_"), GaussianModel(prefix="b_")
    params = background.guess(y, x=x)
    params.update(first.make_params(center=33, sigma=5, amplitude=500))
    params.update(second.make_params(center=62, sigma=5, amplitude=500))
    found = (background + first + second).fit(y, params, x=x)
    print({name: round(float(value), 2) for name, value in found.best_values.items()})
    print(round(float(found.redchi), 3), np.round(found.best_fit[::50], 3))
    damped = Parameters()
    damped.add("amp", value=10, min=0)
    damped.add("decay", value=0.1)
    damped.add("shift", value=0.0, min=-np.pi / 2.0, max=np.pi / 2.0)
    damped.add("omega", value=3.0)
    t = np.linspace(0, 15, 301)
    data = 5 * np.sin(2.0 * t - 0.1) * np.exp(-t * t * 0.025) + rng.normal(scale=0.2, size=t.size)
    result = Minimizer(residual, damped, fcn_args=(t, data)).minimize()
    print([(name, round(float(p.value), 3), round(float(p.stderr), 3)) for name, p in result.params.items()])


if __name__ == "__main__":
    main()
