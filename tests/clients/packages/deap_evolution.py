"""Minimise a function with a genetic algorithm."""

import random

import numpy as np
from deap import algorithms, base, creator, tools


def evaluate(individual):
    x = np.array(individual)
    return (float(np.sum(x**2 - 10 * np.cos(2 * np.pi * x)) + 10 * x.size),)


def main():
    random.seed(29)
    if not hasattr(creator, "Least"):
        creator.create("Least", base.Fitness, weights=(-1.0,))
        creator.create("Vector", list, fitness=creator.Least)
    box = base.Toolbox()
    box.register("number", random.uniform, -5, 5)
    box.register("individual", tools.initRepeat, creator.Vector, box.number, n=10)
    box.register("population", tools.initRepeat, list, box.individual)
    box.register("evaluate", evaluate)
    box.register("mate", tools.cxBlend, alpha=0.3)
    box.register("mutate", tools.mutGaussian, mu=0, sigma=0.5, indpb=0.2)
    box.register("select", tools.selTournament, tournsize=3)
    statistics = tools.Statistics(lambda individual: individual.fitness.values)
    statistics.register("mean", np.mean)
    statistics.register("std", np.std)
    statistics.register("min", np.min)
    best = tools.HallOfFame(1)
    _, log = algorithms.eaSimple(
        box.population(n=200), box, cxpb=0.5, mutpb=0.3, ngen=25, stats=statistics, halloffame=best, verbose=False
    )
    table = np.array([log.select(name) for name in ("mean", "std", "min")])
    print(np.round(table[:, ::5], 3))
    print(np.round(best[0], 3), np.round(best[0].fitness.values, 4))


if __name__ == "__main__":
    main()
