"""Build design matrices from formulas, and solve a least-squares problem with one of them."""

import numpy as np
import patsy


def main():
    rng = np.random.default_rng(38)
    data = {"x": rng.normal(size=300), "group": np.array(["a", "b", "c"])[rng.integers(0, 3, 300)]}
    data["y"] = 1 + 2 * data["x"] + 0.5 * (data["group"] == "b") + 0.1 * rng.normal(size=300)
    outcome, design = patsy.dmatrices("y ~ x + C(group) + np.exp(-x**2)", data)
    print(design.shape, design.design_info.column_names)
    beta, residues, rank, _ = np.linalg.lstsq(design, outcome, rcond=None)
    print(np.round(beta.ravel(), 4), rank, np.round(residues, 4))
    spline = patsy.dmatrix("bs(x, df=5) - 1", {"x": np.linspace(0, 1, 200)})
    print(np.asarray(spline).shape, np.round(np.asarray(spline)[::50], 4))
    plain = patsy.dmatrix("center(x) + standardize(x)", data, return_type="dataframe")
    print(plain.describe().round(4).to_string())


if __name__ == "__main__":
    main()
