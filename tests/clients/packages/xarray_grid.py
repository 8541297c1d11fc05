"""Interpolate and differentiate a field with labelled axes."""

import numpy as np
import xarray as xr


def main():
    x, y = np.linspace(0, 10, 60), np.linspace(0, 5, 40)
    field = np.sin(x[:, None]) * np.exp(-y / 3)
    array = xr.DataArray(field, coords={"x": x, "y": y}, dims=("x", "y"))
    print(np.round(array.sel(x=3.3, method="nearest").values[:5], 5))
    print(np.round(array.interp(x=np.array([1.5, 2.5]), y=np.array([0.5, 1.5, 2.5])).values, 5))
    slope = array.differentiate("x")
    print(np.round(slope.isel(y=0).values[::12], 5))
    print(np.round(array.integrate(("x", "y")).item(), 5))
    print(np.round(array.where(array > 0).mean("y").values[::10], 5))
    print(np.round(array.rolling(x=5, center=True).mean().dropna("x").isel(y=3).values[::11], 5))
    coarse = array.coarsen(x=10, y=10).max()
    print(np.round(coarse.values, 5))
    stacked = xr.concat([array, 2 * array], dim="run")
    print(np.round(np.asarray(stacked.std("run")).sum(), 5))


if __name__ == "__main__":
    main()
