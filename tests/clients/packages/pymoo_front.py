"""Find a Pareto front."""

import numpy as np
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.core.problem import Problem
from pymoo.indicators.hv import HV
from pymoo.optimize import minimize


class TwoGoals(Problem):
    def __init__(self):
        super().__init__(n_var=2, n_obj=2, n_ieq_constr=2, xl=np.array([-2, -2]), xu=np.array([2, 2]))

    def _evaluate(self, x, out, *args, **kwargs):
        f1 = 100 * (x[:, 0] ** 2 + x[:, 1] ** 2)
        f2 = (x[:, 0] - 1) ** 2 + x[:, 1] ** 2
        g1 = 2 * (x[:, 0] - 0.1) * (x[:, 0] - 0.9) / 0.18
        g2 = -20 * (x[:, 0] - 0.4) * (x[:, 0] - 0.6) / 4.8
        out["F"], out["G"] = np.column_stack([f1, f2]), np.column_stack([g1, g2])


def main():
    result = minimize(TwoGoals(), NSGA2(pop_size=40), ("n_gen", 40), seed=1, verbose=False)
    front = result.F[np.argsort(result.F[:, 0])]
    print(front.shape, np.round(front[::8], 3))
    scaled = (front - front.min(axis=0)) / np.ptp(front, axis=0)
    print(np.round(HV(ref_point=np.array([1.1, 1.1]))(scaled), 4))
    print(int(np.argmin(scaled @ np.array([0.5, 0.5]))), np.round(result.X.mean(axis=0), 3))


if __name__ == "__main__":
    main()
