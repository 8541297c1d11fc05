"""Compute the flight of a projectile with physical units."""

import numpy as np
import pint


def main():
    units = pint.UnitRegistry()
    times = np.linspace(0, 4, 400) * units.second
    speed, angle = 80 * units.km / units.hour, np.deg2rad(np.linspace(20, 70, 6))
    gravity = 9.81 * units.meter / units.second**2
    x = (speed * times[:, None] * np.cos(angle)).to("meter")
    y = (speed * times[:, None] * np.sin(angle) - 0.5 * gravity * times[:, None] ** 2).to("meter")
    height = np.where(y.magnitude > 0, y.magnitude, 0) * units.meter
    print(np.round(np.max(height, axis=0), 4))
    print(np.round(x[-1].to("feet"), 4))
    path = np.sqrt(np.diff(x, axis=0) ** 2 + np.diff(y, axis=0) ** 2).sum(axis=0)
    print(np.round(path, 4))
    energy = (0.5 * 2 * units.kg * speed**2).to("joule")
    print(round(energy.magnitude, 4), energy.units)
    mean = np.mean(np.concatenate([x[:10], y[:10]]))
    print(np.round(mean.to("inch"), 4))
    print(np.round(np.trapezoid(y[:, 2], times), 4))
    try:
        print(x + times[:, None])
    except pint.DimensionalityError as error:
        print(error)


if __name__ == "__main__":
    main()
